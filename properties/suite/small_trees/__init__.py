"""Small trees, all of them: every call of some operations up to a number of nodes, packed into batches."""
