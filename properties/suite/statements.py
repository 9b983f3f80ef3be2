"""What each property states, in words, and what its number stands for."""

import re
from inspect import cleandoc

from specsim.properties.property import Property
from specsim.properties.suite.catalogue import group_of

OF_EVERY_OPERATION = {
    "agreement": "the outputs are the reference's, bit for bit, in every defined entry; probabilities agree within"
    " their rounding, and what differs only where rounding decides is counted as a margin case",
    "strided": "the same on views with gaps, offsets and swapped axes",
    "mutation": "no argument changes but those that the table lets the operation write",
    "empty": "an empty batch gives empty outputs of the right shapes and writes nothing",
    "poison": "undefined entries of the input, and the old content of the output memory, do not matter",
    "rejection": "bad input is refused with the reference's reason, and nothing is written",
    "anything": "whatever is handed over in place of an argument, the call returns or is refused, and then nothing is"
    " written; asked of those that promise to refuse bad input",
    "given": "outputs that the caller allocates are written where they are, and nothing beside them; asked of functions"
    " that take them",
    "apart": "no output shares memory with an argument; asked of the same",
}

KINDS = {
    "P01": "greedy output is that of autoregressive decoding",
    "P02": "the exact law of the chain sampler",
    "P03": "the exact law of the tree sampler",
    "P04": "frequencies of samplers that draw their own coins",
    "P06": "a perfect draft is accepted whole",
    "P07": "a hostile draft is never accepted, and an impossible token never output",
    "P08": "coins on a boundary fall as stated",
    "P09": "coins are used once, and independently",
    "P10": "a seeded request depends on nothing but its seed and its prompt",
    "P12": "thresholds below 1 accept more, each request by its own",
    "P13": "every row has the distribution of its own request's filters",
    "P14": "logits are prepared for the request of their row",
    "P15": "what is kept of a request is a fold over its committed tokens, however they were cut",
    "P16": "the mask is the reflexive ancestor closure, in every layout",
    "P17": "a position is the committed length plus the depth",
    "P18": "links and parents say the same, and every walk ends",
    "P19": "another order of siblings, and other numbers of nodes, change names alone",
    "P20": "the kept candidates are the best ones, closed under parents",
    "P21": "a chain is a tree with topk 1",
    "P22": "an accepted path is a path, the longest the target allows",
    "P23": "a larger tree accepts no less",
    "P24": "shapes at the end of a word, a tile, a block",
    "P25": "counts of drafts and of tokens",
    "P26": "figures are counted from what was accepted",
    "P28": "what is reported of a token is that of its own row",
    "P30": "padding changes nothing",
    "P31": "a request depends neither on its neighbours nor on its place",
    "P32": "an empty batch has a defined result",
    "P33": "what a batch carries follows its requests",
    "P36": "nothing is read or written beside a buffer",
    "P37": "no index leaves its array and no sentinel is followed",
    "P38": "a slot has one owner",
    "P40": "a slot holds the tag of its own token",
    "P41": "a move is a snapshot, and all that belongs together moves together",
    "P42": "page sizes agree",
    "P43": "what the prefix cache has under a text is what a fresh prefill would leave there",
    "P44": "a verify leaves of recurrent state what plain decoding of the accepted tokens leaves",
    "P45": "what a sliding window still reaches is there, and what lies before it gives its slot back",
    "P46": "what may be written next is reserved",
    "P47": "the draft at a position receives the next token and the hidden state of its own",
    "P48": "the draft cache is that of a fresh prefill",
    "P49": "proposals depend on the committed tokens only",
    "P50": "the map of the draft vocabulary",
    "P51": "lengths and positions advance with the accepted tokens",
    "P52": "a run ends where its tokens, one by one, would end",
    "P53": "a mask is that of a fresh grammar which read the path",
    "P54": "drafts stop at the context limit, and the output reaches it",
    "P55": "the worker and the schedule change no output",
    "P56": "what is queued has a legal order, and every such order one outcome",
    "P57": "ranks agree on tokens and on what they exchange",
    "P59": "a phase takes its own class, and leaves it as it is",
    "P60": "widths are those of the call, not those of the configuration",
    "P62": "a failure names the first divergence",
    "P63": "acceptance has the rate that its rule promises",
}
"""What laws of one number have in common."""


def statement_of(one: Property) -> str:
    """Return what a property states, in full."""
    return OF_EVERY_OPERATION.get(group_of(one)) or cleandoc(one.law.__doc__ or "")


def sentence_of(one: Property) -> str:
    """Return the first sentence of what a property states."""
    head = " ".join(statement_of(one).partition("\n\n")[0].split())
    return head if group_of(one) in OF_EVERY_OPERATION else re.split(r"(?<=\.)\s", head)[0]
