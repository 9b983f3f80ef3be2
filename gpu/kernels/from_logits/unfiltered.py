"""Acceptance by chance from raw logits that nothing filters: each launch takes every walk one node further.

``row`` is as in ``thresholds``. Of every chunk of a row stand its largest logit, the first token that has it, where the
request is greedy, and otherwise the weights of its blocks beside that logit: ``chunk_ptrs`` points to these three.
"""

import triton
import triton.language as tl

from specsim.gpu.kernels.device.succession import follow_previous
from specsim.gpu.kernels.from_logits.paths import begin_path
from specsim.gpu.kernels.from_logits.residuals import NO_TOKEN, draw_from_row, holds_rejected
from specsim.gpu.kernels.from_logits.statistics import FEW
from specsim.gpu.kernels.from_logits.steps import load_tree, try_children
from specsim.gpu.kernels.from_logits.thresholds import read_logits, share_of, weigh
from specsim.host import sampling

LEAST_THRESHOLD = tl.constexpr(sampling.LEAST_THRESHOLD)


@triton.jit
def read_chunk(
    row_ptr, at, first, vocab, column_stride, temperature, chunk_ptrs, TILE: tl.constexpr, PRECISE: tl.constexpr
):
    """Read one chunk of a row, of TILE[0] blocks of TILE[1] logits, and store what is known of it at its number."""
    BLOCKS: tl.constexpr = TILE[0]
    BLOCK: tl.constexpr = TILE[1]
    tile = tl.arange(0, BLOCKS * BLOCK)
    logit = read_logits(row_ptr, first + tile, vocab, column_stride)
    largest = tl.max(logit, axis=0)
    tl.store(chunk_ptrs[0] + at, largest)
    if temperature == 0:
        tl.store(chunk_ptrs[1] + at, first + tl.min(tl.where(logit == largest, tile, NO_TOKEN), axis=0))
    else:
        base = tl.where(largest > float("-inf"), largest, 0.0)
        weight = tl.reshape(weigh(logit, base, temperature, PRECISE), [BLOCKS, BLOCK // FEW, FEW])
        mass = tl.sum(tl.sum(weight, axis=2).to(tl.float64), axis=1)
        tl.store(chunk_ptrs[2] + at * BLOCKS + tl.arange(0, BLOCKS), mass)


@triton.jit
def know_row(
    row_ptr,
    place,
    token_tile,
    temperature,
    row_sizes,
    chunk_ptrs,
    CHUNKS: tl.constexpr,
    BLOCKS: tl.constexpr,
    PRECISE: tl.constexpr,
):
    """Join what is known of the chunks of a row.

    Returns the row, its total, its weight by blocks, the choice of a greedy request, and the weights of some tokens.
    """
    num_chunks, vocab, column_stride = row_sizes
    # NOTE: everything is read before the first reduction, so that the latencies overlap.
    logit_tile = read_logits(row_ptr, token_tile, vocab, column_stride)
    block = tl.arange(0, CHUNKS * BLOCKS)
    is_block = block < num_chunks * BLOCKS
    number = place * num_chunks + block // BLOCKS
    chunk_max = tl.load(chunk_ptrs[0] + number, mask=is_block, other=float("-inf"))
    is_greedy = temperature == 0
    num_blocks = num_chunks * BLOCKS
    is_chosen, is_weighed = block < tl.where(is_greedy, num_blocks, 0), block < tl.where(is_greedy, 0, num_blocks)
    chunk_token = tl.load(chunk_ptrs[1] + number, mask=is_chosen, other=NO_TOKEN)
    block_mass = tl.load(chunk_ptrs[2] + place * num_blocks + block, mask=is_weighed, other=0.0)
    largest = tl.max(chunk_max, axis=0)
    largest = tl.where(largest > float("-inf"), largest, 0.0)
    divisor = tl.where(is_greedy, 1.0, temperature)
    block_mass *= weigh(chunk_max, largest, divisor, PRECISE).to(tl.float64)
    choice = tl.min(tl.where(chunk_max == largest, chunk_token, NO_TOKEN), axis=0)
    total = tl.where(is_greedy, 1.0, tl.sum(block_mass, axis=0))
    weight_tile = weigh(logit_tile, largest, divisor, PRECISE)
    weight_tile = tl.where(is_greedy, (token_tile == choice).to(weight_tile.dtype), weight_tile)
    weight_tile = tl.where(share_of(weight_tile, 1.0 / total, PRECISE) > 0, weight_tile, 0.0)
    row = (row_ptr, vocab, column_stride, largest, divisor)
    return row, total, block_mass, choice, weight_tile


@triton.jit
def step_or_stop(
    tiles, weight_tile, total, node, coin_ptr, threshold_ptrs, request, rules, num_nodes, NODES: tl.constexpr
):
    """Try the children of a node with its coin; return the one accepted, and whether none was."""
    first_child, sibling_tile, token_tile = tiles
    coin = tl.load(coin_ptr + request * num_nodes + node).to(tl.float64)
    threshold_acc = tl.maximum(tl.load(threshold_ptrs[1] + request).to(tl.float64), LEAST_THRESHOLD)
    return try_children(
        first_child,
        sibling_tile,
        token_tile,
        (weight_tile * (1.0 / total)).to(tl.float32),
        coin * threshold_acc,
        tl.load(threshold_ptrs[0] + request),
        rules & 1,
        rules >> 1,
        num_nodes,
        NODES,
    )


@triton.jit
def write_step(own_tree, retrieve_index_ptr, predict_ptr, path_ptr, node, child, level):
    """Write down that a child of a node was accepted, at the level after the node's."""
    tl.store(predict_ptr + node, tl.load(own_tree[0] + child).to(tl.int32))
    tl.store(path_ptr + level + 1, tl.load(retrieve_index_ptr + child).to(tl.int32))


@triton.jit(do_not_specialize=["num_nodes", "num_steps", "level", "rules"])
def _read_unfiltered_kernel(
    tree_ptrs,
    coin_ptrs,
    logits_ptr,
    temperature_ptr,
    threshold_ptrs,
    reached_ptr,
    chunk_ptrs,
    path_ptrs,
    num_nodes,
    num_steps,
    level,
    row_sizes,
    rules,
    TREE: tl.constexpr,
    CHUNKS: tl.constexpr,
    TILE: tl.constexpr,
    PRECISE: tl.constexpr,
    READS_ALL: tl.constexpr,
):
    """Try the children of the node that each walk has reached, and read one chunk of the row of the one accepted.

    All programs of a request accept the same child; the first of them writes it down. With READS_ALL every row is read
    in its turn, and nothing is tried.
    """
    follow_previous()
    num_chunks, vocab, row_stride, column_stride = row_sizes
    NODES: tl.constexpr = TREE[0]
    STEPS: tl.constexpr = TREE[1]
    # Programs read what earlier launches have left, and write chunks of their own; what a request has once, its first
    # program writes. So no program waits for another.
    place = tl.program_id(0).to(tl.int64)
    share = tl.program_id(1)
    if READS_ALL:
        request = place // num_nodes
        row = place
        node = tl.zeros([], dtype=tl.int32)
        temperature = tl.load(temperature_ptr + request)
    else:
        num_requests = tl.num_programs(0)
        request = place
        first = request * num_nodes
        last = tl.load(reached_ptr + (level - 1) * num_requests + request, mask=level > 0, other=-1)
        temperature = tl.load(temperature_ptr + request)
        node = tl.where(level == 0, 0, -1)
        path_ptr = path_ptrs[1] + request * (num_steps + 1)
        if last >= 0:
            own_tree = (tree_ptrs[0] + first, tree_ptrs[2] + first, tree_ptrs[3] + first)
            tiles = load_tree(own_tree, last, True, num_nodes, NODES)
            before = (level - 1) * num_requests + request
            row_ptr = logits_ptr + (first + last) * row_stride
            sizes = (num_chunks, vocab, column_stride)
            known = know_row(row_ptr, before, tiles[2], temperature, sizes, chunk_ptrs, CHUNKS, TILE[0], PRECISE)
            child, is_stuck = step_or_stop(
                tiles, known[4], known[1], last, coin_ptrs[0], threshold_ptrs, request, rules, num_nodes, NODES
            )
            if is_stuck == 0:
                node = child.to(tl.int32)
                if share == 0:
                    write_step(own_tree, tree_ptrs[1] + first, path_ptrs[0] + first, path_ptr, last, child, level - 1)
        if share == 0:
            tl.store(reached_ptr + level * num_requests + request, node)
            if level == 0:
                root = tl.load(tree_ptrs[1] + first).to(tl.int32)
                begin_path(path_ptrs[0] + first, path_ptr, root, num_nodes, num_steps, NODES, STEPS)
        row = first + node
        place += level * num_requests
    if node >= 0:
        begin = share * TILE[0] * TILE[1]
        row_ptr = logits_ptr + row * row_stride
        at = place * num_chunks + share
        read_chunk(row_ptr, at, begin, vocab, column_stride, temperature, chunk_ptrs, TILE, PRECISE)


@triton.jit(do_not_specialize=["num_nodes", "num_steps", "num_levels", "rules"])
def _end_unfiltered_kernel(
    tree_ptrs,
    coin_ptrs,
    logits_ptr,
    temperature_ptr,
    threshold_ptrs,
    reached_ptr,
    chunk_ptrs,
    path_ptrs,
    num_nodes,
    num_steps,
    num_levels,
    row_sizes,
    rules,
    TREE: tl.constexpr,
    CHUNKS: tl.constexpr,
    TILE: tl.constexpr,
    PRECISE: tl.constexpr,
    READS_ALL: tl.constexpr,
):
    """Draw the last token of each request; with READS_ALL its walk comes first."""
    follow_previous()
    num_chunks, vocab, row_stride, column_stride = row_sizes
    sizes = (num_chunks, vocab, column_stride)
    NODES: tl.constexpr = TREE[0]
    BLOCKS: tl.constexpr = CHUNKS * TILE[0]
    request = tl.program_id(0).to(tl.int64)
    num_requests = tl.num_programs(0)
    first = request * num_nodes
    own_tree = (tree_ptrs[0] + first, tree_ptrs[2] + first, tree_ptrs[3] + first)
    retrieve_index_ptr = tree_ptrs[1] + first
    predict_ptr = path_ptrs[0] + first
    path_ptr = path_ptrs[1] + request * (num_steps + 1)
    temperature = tl.load(temperature_ptr + request)
    final_coin = tl.load(coin_ptrs[1] + request).to(tl.float64)
    if READS_ALL:
        root = tl.load(retrieve_index_ptr).to(tl.int32)
        begin_path(predict_ptr, path_ptr, root, num_nodes, num_steps, NODES, TREE[1])
        # NOTE: entries that many threads have just cleared are written once more below, each by a single thread.
        tl.debug_barrier()
        level = tl.zeros([], dtype=tl.int32)
        node = tl.zeros([], dtype=tl.int32)
    else:
        step = tl.arange(0, TREE[1])
        reached = tl.load(reached_ptr + step * num_requests + request, mask=step < num_levels, other=-1)
        level = tl.sum((reached >= 0).to(tl.int32), axis=0) - 1
        node = tl.sum(tl.where(step == level, reached, 0), axis=0)
    while node >= 0:
        tiles = load_tree(own_tree, node, level < num_levels - 1, num_nodes, NODES)
        place = first + node if READS_ALL else level.to(tl.int64) * num_requests + request
        row_ptr = logits_ptr + (first + node) * row_stride
        known = know_row(row_ptr, place, tiles[2], temperature, sizes, chunk_ptrs, CHUNKS, TILE[0], PRECISE)
        row, total, block_mass, choice, weight_tile = known
        child = node
        is_stuck = node >= 0
        if READS_ALL:
            child, is_stuck = step_or_stop(
                tiles, weight_tile, total, node, coin_ptrs[0], threshold_ptrs, request, rules, num_nodes, NODES
            )
        if is_stuck:
            rejected = (tiles[0], own_tree[0], own_tree[2], num_nodes, tiles[2], weight_tile)
            if temperature == 0:
                drawn = tl.where(holds_rejected(choice, choice + 1, rejected), vocab - 1, choice)
            else:
                chosen, last = draw_from_row(
                    row, 1.0 / total, float("-inf"), final_coin, rejected, block_mass, True, BLOCKS, PRECISE, TILE[1]
                )
                drawn = tl.where(chosen < NO_TOKEN, chosen, tl.where(last >= 0, last, vocab - 1))
            tl.store(predict_ptr + node, drawn.to(tl.int32))
            tl.store(path_ptrs[2] + request, level)
            node = tl.full([], -1, dtype=tl.int32)
        else:
            write_step(own_tree, retrieve_index_ptr, predict_ptr, path_ptr, node, child, level)
            node = child.to(tl.int32)
        level += 1
