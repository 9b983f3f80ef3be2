"""What a verify keeps and gives back where a page holds several slots."""
