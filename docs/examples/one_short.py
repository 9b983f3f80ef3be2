"""A verification that stops one short: what ``specsim check`` says of it stands in ``check-your-kernels.md``."""

import specsim.reference


def verify_tree_greedy(**arguments):
    """Walk as it should be, but leave out a last draft that is no first child."""
    predict, accept_index, num_accepted_drafts = specsim.reference.verify_tree_greedy(**arguments)
    for request, path in enumerate(accept_index % arguments["candidates"].shape[1]):
        drafts = num_accepted_drafts[request]
        if drafts and arguments["retrieve_next_token"][request, path[drafts - 1]] != path[drafts]:
            accept_index[request, drafts] = -1
            num_accepted_drafts[request] -= 1
    return predict, accept_index, num_accepted_drafts
