"""Acceptance straight from raw logits: a walk reads the rows that it visits, each once, and no others."""

import torch

from specsim.counts import path_width
from specsim.gpu.acceptance import COINS, MASSES, THRESHOLDS, TREE, unfiltered_of
from specsim.gpu.chains import FILTERS, buffers_of, cut_chains, filters_of, reading_of, walking_of
from specsim.gpu.kernels.from_logits import (
    chain_fronts,
    chain_rows,
    chains,
    filtered_chains,
    greedy,
    sampled,
)
from specsim.gpu.launching.blocks import UNIT, WARP_SIZE, ceil_div, power_of_two
from specsim.gpu.launching.buffers import Call
from specsim.gpu.launching.calls import operation
from specsim.gpu.launching.launcher import Buffers, Launch
from specsim.gpu.launching.mode import choose_block, chunks_to_fill
from specsim.gpu.launching.plan import Plan, Size, strides_of
from specsim.gpu.launching.row_statistics import (
    LARGEST_PRECISE,
    LEAST_CHUNK,
    NARROWING,
    NARROWING_WIDE,
    NOT_NARROWED,
    NUM_WARPS,
    block_of,
    chunk_of,
    chunk_statistics,
    kind_of_rows,
    reads_all,
    search_of,
    share_of_row,
    statistics_plan,
)
from specsim.gpu.verify import follow_choices, read_shares

FIRST_NARROW_PROGRAMS, NARROW_PROGRAMS = 128, 64
"""Programs of a round of narrowing, all rows together, at the roots, and later, where few walks with such rows get:
more of them leave late where nothing is to be narrowed."""

MOST_GREEDY_ROWS, MOST_SAMPLED_ROWS = 256, 128
"""Rows that are all read in one launch before one walk, rather than level by level: fewer launches for more bytes."""

GREEDY_WARPS = 4
"""Warps of a program of the greedy walk: each reads 64 logits a thread, or fewer."""


@operation
def verify_tree_greedy_from_logits(call: Call) -> list[Launch]:
    """Accept greedily from raw logits; one launch a level of the tree, over chunks of a row.

    Where rows are few, all of them are read in one launch, and walked in another.
    """
    axes, logits = call.axes, call.arguments["logits"]
    num_requests, num_nodes, vocab, num_steps = (axes[name] for name in ("request", "node", "vocab", "num_steps"))
    if num_requests == 0:
        return []
    num_levels = min(path_width(num_steps), num_nodes)
    if num_levels == 1 or reads_all(num_requests * num_nodes, MOST_GREEDY_ROWS):
        plan, shares = read_shares(call, logits, keeps_shares=True)
        return [Launch(plan, {"logits": logits}, {}, shares), follow_choices(call, {}, shares, plan.grid[1])]
    chunk = share_of_row(vocab, num_requests)
    num_chunks = ceil_div(vocab, chunk)
    partial = (num_levels, num_requests, num_chunks)
    inputs, outputs = {"logits": logits, "tree": call.group(*TREE)}, {"path": tuple(call.outputs)}
    scratch: Buffers = {
        "reached": call.scratch(num_levels, num_requests, dtype=torch.int32),
        "count": call.scratch(num_requests, dtype=torch.int32),
        "choice": tuple(call.scratch(*partial, dtype=dtype) for dtype in (torch.float32, torch.int32)),
    }
    plans = [
        Plan(
            greedy._walk_greedy_kernel,
            grid=(num_requests, num_chunks),
            sizes={
                "num_nodes": num_nodes,
                "num_steps": num_steps,
                "level": level,
                "num_levels": num_levels,
                "num_chunks": num_chunks,
                "row_sizes": (vocab, *logits.stride()),
            },
            constants={
                "NODES": max(WARP_SIZE, power_of_two(num_nodes)),
                "STEPS": power_of_two(path_width(num_steps)),
                "CHUNKS": power_of_two(num_chunks),
            },
            tunables={"CHUNK": chunk},
            num_warps=max(1, min(GREEDY_WARPS, chunk // 256)),
        )
        for level in range(num_levels)
    ]
    return [Launch(plan, inputs, outputs, scratch) for plan in plans]


@operation
def verify_tree_sampled_from_logits(call: Call) -> list[Launch]:
    """Accept by chance from raw logits; two launches a level of the tree, over chunks of a row and over requests.

    The first reads the row of the node that each request has reached. The second decides; before, unless vocabularies
    are small, its first programs narrow down what top-p keeps of rows whose lists of the largest logits do not suffice.
    Where rows are few, each launch does so for all of them.
    """
    axes, logits = call.axes, call.arguments["logits"]
    num_requests, num_nodes, vocab, num_steps = (axes[name] for name in ("request", "node", "vocab", "num_steps"))
    if num_requests == 0:
        return []
    if all(call.arguments[name] is None for name in FILTERS):
        planned, inputs, scratch = unfiltered_of(call)
        return [Launch(Plan(**one), inputs, {"path": tuple(call.outputs)}, scratch) for one in planned]
    num_chunks, is_precise = ceil_div(vocab, chunk_of(vocab)), vocab <= LARGEST_PRECISE
    num_levels = min(path_width(num_steps), num_nodes)
    is_whole = num_levels > 1 and reads_all(num_requests * num_nodes, MOST_SAMPLED_ROWS)
    num_rows = num_requests * num_nodes if is_whole else num_requests
    narrow = NOT_NARROWED if is_precise else NARROWING if logits.dtype is torch.bfloat16 else NARROWING_WIDE
    rounds, num_blocks = narrow[0], ceil_div(vocab, block_of(vocab))
    plans = []
    for level, end in [(0, num_levels)] if is_whole else [(level, level + 1) for level in range(num_levels)]:
        read_level = -1 if is_whole else level
        narrowing = NARROW_PROGRAMS if is_whole or level else FIRST_NARROW_PROGRAMS
        programs = chunks_to_fill(num_rows, num_blocks, narrowing)
        num_narrowing = rounds * num_rows * programs
        plans.append(statistics_plan(logits, num_rows, num_nodes, read_level, is_precise, narrow))
        walk = Plan(
            sampled._walk_sampled_kernel,
            grid=(num_narrowing + num_requests,),
            sizes={
                "num_nodes": num_nodes,
                "num_steps": num_steps,
                "level": level,
                "end": end,
                "num_levels": num_levels,
                "row_sizes": (num_chunks, vocab, *logits.stride()),
                "shares": (num_narrowing, programs, ceil_div(num_blocks, programs), num_blocks),
                "rules": axes["strict"] | axes["skip_duplicates"] << 1,
            },
            constants={
                "TREE": (power_of_two(num_nodes), power_of_two(path_width(num_steps))),
                "CHUNKS": power_of_two(num_chunks),
                **kind_of_rows(logits, is_precise),
            },
            tunables={"SEARCH": (*search_of(vocab, narrow), UNIT)},
            num_warps=NUM_WARPS,
        )
        plans.append(walk)
    lacks_some = any(call.arguments[name] is None for name in FILTERS)
    given, neutral = filters_of(call) if lacks_some else (call.group(*FILTERS), ())
    filters = {**call.contiguous("temperature"), **dict(zip(FILTERS, given, strict=True))}
    inputs = {
        "logits": logits,
        **filters,
        "filter": tuple(filters.values()),
        "tree": call.group(*TREE),
        "coin": call.group(*COINS),
        "threshold": call.group(*THRESHOLDS),
    }
    current = call.scratch(num_requests, dtype=torch.int32)
    left = chunk_statistics(call, num_rows, vocab)
    if rounds:
        left += (
            call.scratch(num_rows, rounds, 4, dtype=torch.int32),
            call.scratch(num_rows, rounds, num_blocks, 1 << narrow[1], dtype=torch.float64),
            call.scratch(num_rows, rounds, dtype=torch.int32),
        )
    scratch = {"current": current, "statistic": left, "walk": (current, *left)}
    outputs = {"path": tuple(call.outputs)}
    launches = [Launch(plan, inputs, outputs, scratch) for plan in plans]
    if lacks_some:
        requests = choose_block(num_requests, LEAST_CHUNK)
        fill = Plan(
            filtered_chains._fill_neutral_kernel,
            grid=(ceil_div(num_requests, requests),),
            sizes={"num_requests": num_requests},
            tunables={"REQUESTS": requests},
        )
        launches.insert(0, Launch(fill, {}, {}, {"neutral": neutral}))
    return launches


@operation
def chain_speculative_sampling_from_logits(call: Call) -> list[Launch]:
    """Accept ragged chains from raw logits in two launches, over blocks of rows; more where the call has filters.

    The first reads the rows of the first levels, all rows of small batches. The second reads on, level after level,
    until walks are known to end; adds up what is left of each last row; and draws. With filters two launches a level
    take all walks one draft further, and the last one adds up and draws.
    """
    if call.axes["request"] == 0:
        return []
    cut = cut_chains(call, LARGEST_PRECISE)
    inputs, outputs, scratch = buffers_of(call, cut)
    read = Launch(Plan(chain_rows._read_chain_rows_kernel, **reading_of(call, cut)), inputs, outputs, scratch)
    walk = Launch(Plan(chains._walk_chains_kernel, **walking_of(call, cut)), inputs, outputs, scratch)
    if not cut.is_filtered:
        return [read, walk]
    target, num_requests = call.arguments["target_logits"], call.axes["request"]
    vocab, requests = target.shape[1], choose_block(num_requests, LEAST_CHUNK)
    num_chunks, is_precise = ceil_div(vocab, chunk_of(vocab)), bool(cut.constants["PRECISE"])
    filters, neutral = filters_of(call)
    current, of_chunks = call.scratch(num_requests, dtype=torch.int32), chunk_statistics(call, num_requests, vocab)
    inputs, scratch = {**inputs, "filter": filters}, {**scratch, "walk": (current, *of_chunks), "neutral": neutral}
    of_rows: Buffers = {"logits": target, "filter": (inputs["request"][1], *filters)}
    statistic: Buffers = {"current": current, "statistic": of_chunks}
    start = Plan(
        filtered_chains._start_chains_kernel,
        grid=(ceil_div(num_requests, requests),),
        sizes={"num_requests": num_requests, "num_drafted": call.axes["drafted"]},
        tunables={"REQUESTS": requests},
    )
    launches = [*([read] if cut.num_sides > 1 else []), Launch(start, inputs, outputs, scratch)]
    for level in range(cut.num_levels):
        judge = Plan(
            filtered_chains._walk_filtered_chains_kernel,
            grid=(num_requests,),
            sizes={**cut.sizes, "level": level, "num_chunks": num_chunks},
            constants={
                **cut.constants,
                **kind_of_rows(target, is_precise),
                "WIDTHS": tuple(map(power_of_two, (cut.num_levels, cut.num_blocks, num_chunks))),
            },
            tunables={"SEARCH": search_of(vocab)},
            num_warps=NUM_WARPS,
        )
        # NOTE: a row of a chain is found by its own number, not by that of a node, which is only read after level 0.
        of_level = statistics_plan(target, num_requests, 0, level + 1, is_precise)
        launches += [Launch(of_level, of_rows, outputs, statistic), Launch(judge, inputs, outputs, scratch)]
    return [*launches, walk]


@operation
def chain_block_verification_from_logits(call: Call) -> list[Launch]:
    """Accept ragged chains from raw logits as blocks, in five launches whatever their drafts; more with filters.

    All rows are read, and what is known of them is joined. Then blocks of what every front leaves are added up, all
    fronts of a request are judged at once, and the last launch draws as that of a filtered chain does. With filters,
    draft rows alone are read so; parameters of requests are written for their rows, and the target's rows are read over
    chunks, and filtered, one a program.
    """
    axes, target = call.axes, call.arguments["target_logits"]
    num_requests, (num_rows, vocab) = axes["request"], target.shape
    single, double, whole = torch.float32, torch.float64, torch.int32
    if num_requests == 0:
        return []
    cut = cut_chains(call, LARGEST_PRECISE, as_blocks=True)
    inputs, outputs, scratch = buffers_of(call, cut)
    num_parts, is_precise = cut.num_rest_blocks * cut.rest_tile[0], bool(cut.constants["PRECISE"])
    num_units = (cut.num_levels - 2) * cut.num_rest_blocks
    programs, width = chunks_to_fill(num_requests, max(1, num_units)), power_of_two(cut.num_levels)
    scratch = {
        **scratch,
        "law": tuple(call.scratch(num_rows, dtype=dtype) for dtype in (single, double, single, whole)),
        "front": (
            call.scratch(num_requests, cut.num_levels, dtype=double),
            call.scratch(num_requests, cut.num_levels, num_parts, dtype=double),
        ),
    }
    lengths: dict[str, Size] = {name: cut.sizes[name] for name in ("num_drafted", "max_num_drafts")}
    of_walk = {**cut.constants, "WIDTHS": (width, power_of_two(cut.num_blocks))}
    weigh = Plan(
        chain_fronts._weigh_chain_fronts_kernel,
        grid=(num_requests, programs),
        sizes={
            **cut.sizes,
            "num_rest_blocks": cut.num_rest_blocks,
            "units_per_program": ceil_div(max(0, num_units), programs),
        },
        constants=of_walk,
        tunables={"TILE": cut.rest_tile},
        num_warps=cut.num_warps,
    )
    judge = Plan(
        chain_fronts._judge_chain_fronts_kernel,
        grid=(num_requests,),
        sizes={**lengths, "num_parts": num_parts, "row_sizes": cut.sizes["row_sizes"]},
        constants={name: value for name, value in of_walk.items() if name != "draft_logits_ptr"},
        tunables={"PART": max(1, min(power_of_two(num_parts), MASSES // width))},
        num_warps=cut.num_warps,
    )
    if cut.reads_target:
        join = Plan(
            chain_fronts._join_chain_rows_kernel,
            grid=(num_requests,),
            sizes={**lengths, "num_blocks": cut.num_blocks},
            constants={"PRECISE": is_precise, "WIDTHS": of_walk["WIDTHS"]},
            num_warps=cut.num_warps,
        )
        settle = [Launch(join, inputs, outputs, scratch)]
    else:
        row_filter = tuple(call.scratch(num_rows, dtype=dtype) for dtype in (single, whole, single, single))
        of_rows: Buffers = {"logits": target, "filter": row_filter}
        current, of_chunks = call.scratch(1, dtype=whole), chunk_statistics(call, num_rows, vocab)
        known: Buffers = {"current": current, "statistic": of_chunks}
        given = call.contiguous(*[name for name in FILTERS if call.arguments[name] is not None])
        absent = {f"{name}_ptr": None for name in FILTERS if name not in given}
        inputs, scratch = {**inputs, **given}, {**scratch, "walk": (current, *of_chunks), "row_filter": row_filter}
        spread = Plan(
            chain_fronts._spread_filters_kernel,
            grid=(num_requests,),
            sizes=lengths,
            constants={**absent, "WIDTH": width},
        )
        num_chunks = ceil_div(vocab, chunk_of(vocab))
        keep = Plan(
            chain_fronts._filter_chain_rows_kernel,
            grid=(num_rows,),
            sizes={"num_chunks": num_chunks, "vocab": vocab, **strides_of(target, "row", "column")},
            constants={"CHUNKS": power_of_two(num_chunks), **kind_of_rows(target, is_precise)},
            tunables={"SEARCH": search_of(vocab)},
            num_warps=NUM_WARPS,
        )
        settle = [
            Launch(spread, inputs, outputs, scratch),
            Launch(statistics_plan(target, num_rows, 1, -1, is_precise), of_rows, outputs, known),
            Launch(keep, inputs, outputs, scratch),
        ]
    read = Plan(chain_rows._read_chain_rows_kernel, **reading_of(call, cut))
    walk = Plan(chains._walk_chains_kernel, **walking_of(call, cut))
    return [
        *([Launch(read, inputs, outputs, scratch)] if cut.reads_target or cut.num_sides > 1 else []),
        *settle,
        *[Launch(plan, inputs, outputs, scratch) for plan in (weigh, judge, walk)],
    ]
