"""Grammar: which tokens each node of a tree may be followed by."""

from specsim.conformance.arrays import Array
from specsim.host.grammar import TableGrammar, allow_everything, traverse_tree
from specsim.validation.checking import check_call


def generate_token_bitmask(
    transitions: Array,
    is_terminated: Array,
    candidates: Array,
    retrieve_next_token: Array,
    retrieve_next_sibling: Array,
    grammar_state: Array,
) -> Array:
    """Walk each tree with its request's grammar and pack the tokens that each reached node may be followed by.

    Parameters
    ----------
    transitions : int32 [state, vocab]
        State after each token, -1 where the grammar forbids it.
    is_terminated : bool [state]
        States in which the text is complete.
    candidates : int64 [request, node]
        Token of each node.
    retrieve_next_token : int64 [request, node]
        First child, -1 if none.
    retrieve_next_sibling : int64 [request, node]
        Next sibling, -1 if none.
    grammar_state : int32 [request]
        State after the root's token; -1 for a request without grammar.

    Returns
    -------
    vocab_mask : int32 [request*node, ceil(vocab/32)]
        Bit ``v mod 32`` of word ``v // 32`` allows token v; rows of nodes that the grammar does not reach, or that
        complete the text, are all ones; bits past the vocabulary of the others are zero.

    Raises
    ------
    SpecRejection
        STATE_OUT_OF_RANGE, CYCLIC_TREE, SHARED_NODE.

    Notes
    -----
    Source: semantics B.5.
    """
    axes = check_call("generate_token_bitmask", locals())
    num_nodes, vocab = axes["node"], axes["vocab"]
    vocab_mask = allow_everything(axes["request"] * num_nodes, vocab)
    for request in range(axes["request"]):
        if grammar_state[request] >= 0:
            traverse_tree(
                retrieve_next_token[request].tolist(),
                retrieve_next_sibling[request].tolist(),
                candidates[request].tolist(),
                TableGrammar(transitions, is_terminated, int(grammar_state[request])),
                vocab_mask[request * num_nodes : (request + 1) * num_nodes],
                vocab,
            )
    return vocab_mask
