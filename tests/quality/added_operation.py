"""An operation that is added for trial: what is written by hand, file by file, in the order of its page."""

import re
from dataclasses import dataclass
from pathlib import Path

NAME = "count_path_nodes"
GROUP = "compact"
SECTION = "C.90"
"""Stands for ``@SECTION`` in what is written: no section of the page has this number, and no source here cites it."""


@dataclass(frozen=True)
class Edit:
    """Lines that go into a file: before or after the line that starts with given words, or to the end."""

    path: str
    lines: str
    before: str = ""
    after: str = ""

    def apply(self, root: Path) -> None:
        """Write the lines."""
        path = root / self.path
        text = path.read_text(encoding="utf-8")
        place = len(text)
        if words := self.before or self.after:
            found = re.search(rf"^{re.escape(words)}.*\n", text, re.MULTILINE)
            assert found is not None, f"{self.path} has no line that starts with {words!r}"
            place = found.start() if self.before else found.end()
        path.write_text(text[:place] + self.lines.replace("@SECTION", SECTION) + text[place:], encoding="utf-8")


SEMANTICS = Edit(
    f"docs/reference/{GROUP}.md",
    """
## @SECTION Nodes of a path

`count_path_nodes`: `num_path_nodes[b]` counts the entries of `accept_index[b]` that are not −1, the root among them.

<!-- count_path_nodes: begin, written by make generate -->
<!-- count_path_nodes: end -->
""",
)
RECORD = Edit(
    f"specsim/operations/{GROUP}.py",
    """\
    Operation(
        name="count_path_nodes",
        group="compact",
        summary="Count the nodes of each accepted path, the root among them.",
        contract=Contract(
            parameters=(ACCEPT_INDEX,),
            outputs=(array("num_path_nodes", "int32 [request]", Unit.COUNT),),
        ),
        source="semantics @SECTION",
    ),
""",
    after="OPERATIONS = (",
)
REFERENCE = Edit(
    f"reference/{GROUP}.py",
    '''

def count_path_nodes(accept_index: Array) -> Array:
    """Count the nodes of each accepted path, the root among them.

    Parameters
    ----------
    accept_index : int32 [request, draft+1]
        Global node index in path order, padding -1.

    Returns
    -------
    num_path_nodes : int32 [request]
        Entries that are no padding.

    Notes
    -----
    Source: semantics @SECTION.
    """
    axes = check_call("count_path_nodes", locals())
    num_path_nodes = np.zeros(axes["request"], dtype=np.int32)
    for request in range(axes["request"]):
        for node in accept_index[request]:
            num_path_nodes[request] += node != -1
    return num_path_nodes
''',
)
HOST_FUNCTION = (
    Edit(f"gpu/{GROUP}.py", f'    "{NAME}",\n', after='    "compact_accepted_to_front",'),
    Edit(
        f"gpu/{GROUP}.py",
        '''

@operation
def count_path_nodes(call: Call) -> Launch | None:
    """Count the nodes of each accepted path; a program owns a block of requests."""
    num_requests = call.axes["request"]
    if num_requests == 0:
        return None
    block = choose_block(num_requests, BONUS_TOKENS)
    return Launch(
        Plan(
            kernels._count_path_nodes_kernel,
            grid=(ceil_div(num_requests, block),),
            sizes={"num_requests": num_requests, "width": call.axes["draft"] + 1},
            tunables={"BLOCK": block},
        ),
        inputs=call.contiguous("accept_index"),
        outputs=call.returned(),
    )
''',
    ),
)
KERNEL = Edit(
    f"gpu/kernels/{GROUP}.py",
    """

@triton.jit
def _count_path_nodes_kernel(accept_index_ptr, num_path_nodes_ptr, num_requests, width, BLOCK: tl.constexpr):
    request = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    is_request = request < num_requests
    count = tl.zeros((BLOCK,), dtype=tl.int32)
    for place in range(width):
        node = tl.load(accept_index_ptr + request * width + place, mask=is_request, other=-1)
        count += (node >= 0).to(tl.int32)
    tl.store(num_path_nodes_ptr + request, count, mask=is_request)
""",
)
STRATEGY = Edit(
    f"properties/operations/{GROUP}/strategy.py",
    '''

@composite
def count_path_nodes(draw: st.DrawFn, max_requests: int = MAX_REQUESTS) -> Arguments:
    """Draw accepted paths."""
    return {"accept_index": draw(accepted(max_requests)).accept_index}
''',
)
LAW = (
    Edit(
        f"properties/operations/{GROUP}/laws.py",
        '''\
def the_root_is_a_node_of_its_path(backend: Backend, case: Case) -> None:
    """A path without drafts has one node, and each draft is one more."""
    num_path_nodes = outputs_of(backend, "count_path_nodes", case)["num_path_nodes"]
    drafts = [sum(node != -1 for node in row[1:]) for row in case["accept_index"].tolist()]
    require_equal("num_path_nodes", num_path_nodes, [1 + count for count in drafts])


''',
        before="def gathered_tokens_stop_at_the_sentinel",
    ),
    Edit(
        f"properties/operations/{GROUP}/laws.py",
        f'    (the_root_is_a_node_of_its_path, "{NAME}", "P37"),\n',
        after='    "compact",',
    ),
)
MUTANT = Edit(
    f"properties/operations/{GROUP}/faults.py",
    """\
    @@ count_path_nodes
    OWN-TRIAL The root is left out.
    - accept_index[request] => accept_index[request, 1:]
""",
    after='DIFFS = """',
)
TEST = Edit(
    f"tests/reference/test_{GROUP}.py",
    """

def test_count_path_nodes_includes_the_root(equal, i32):
    equal(reference.count_path_nodes(i32([[0, 2], [3, -1]])), i32([2, 1]))
""",
)
CHANGELOG = Edit("CHANGELOG.md", f"- Operation `{NAME}`.\n")

STEPS = ((SEMANTICS, RECORD), (REFERENCE,), (*HOST_FUNCTION, KERNEL), (STRATEGY, *LAW, MUTANT), (TEST, CHANGELOG))
"""What is written by hand, in five steps."""
NOT_COUNTED = (KERNEL.path, TEST.path)
"""Kernel and tests: as long as they have to be."""
