"""What stands for sgl_kernel 0.3.21: its functions' parameters, what they demand of tensors, and their loops, in torch.

A kernel reads and writes memory by sizes alone, whatever strides a tensor has: here a tensor with others is refused.
"""

import torch

FULL, PACKED = 0, 2


def _demand(dtype, shape, *tensors):
    for tensor in tensors:
        assert (tensor.dtype, tuple(tensor.shape), tensor.is_contiguous()) == (dtype, tuple(shape), True)


def build_tree_kernel_efficient(
    parent_list,
    selected_index,
    verified_seq_len,
    tree_mask,
    positions,
    retrive_index,
    retrive_next_token,
    retrive_next_sibling,
    topk,
    depth,
    draft_token_num,
    tree_mask_mode,
):
    num_requests, nodes = len(verified_seq_len), draft_token_num
    _demand(torch.int64, (num_requests, nodes - 1), selected_index)
    _demand(torch.int64, (num_requests,), verified_seq_len)
    _demand(torch.int64, (num_requests, nodes), retrive_index, retrive_next_token, retrive_next_sibling)
    _demand(torch.int64, (num_requests * nodes,), positions)
    assert parent_list.dtype is torch.int64
    assert depth == 1 or parent_list.shape == (num_requests, topk * (depth - 1) + 1)
    after = 0
    for request, length in enumerate(verified_seq_len.tolist()):
        selected, parents = selected_index[request].tolist(), parent_list[request].tolist()
        above = [0]
        for entry in selected:
            group = entry // topk
            above.append(0 if group == 0 else 1 + selected.index(parents[group]))
        for node in reversed(range(1, nodes)):
            retrive_next_sibling[request, node] = retrive_next_token[request, above[node]]
            retrive_next_token[request, above[node]] = node
        retrive_index[request] = torch.arange(nodes) + request * nodes
        for node in range(nodes):
            seen, other = {0}, node
            while other:
                seen.add(other)
                other = above[other]
            positions[request * nodes + node] = length + len(seen) - 1
            if tree_mask_mode == PACKED:
                tree_mask[request * nodes + node] = sum(1 << other for other in seen)
                continue
            start = (
                after + node * (length + nodes) + length if tree_mask_mode == FULL else (request * nodes + node) * nodes
            )
            tree_mask[start : start + nodes] = torch.tensor([other in seen for other in range(nodes)])
        after += nodes * (length + nodes)


def verify_tree_greedy(
    predicts,
    accept_index,
    accept_token_num,
    candidates,
    retrive_index,
    retrive_next_token,
    retrive_next_sibling,
    target_predict,
):
    num_requests, nodes = candidates.shape
    links = retrive_index, retrive_next_token, retrive_next_sibling
    _demand(torch.int64, (num_requests, nodes), candidates, *links, target_predict)
    _demand(torch.int32, (num_requests, accept_index.shape[1]), accept_index)
    _demand(torch.int32, (num_requests,), accept_token_num)
    _demand(torch.int32, (num_requests * nodes,), predicts)
    chosen = target_predict.flatten()
    for request in range(num_requests):
        last, node, accepted = int(retrive_index[request, 0]), 0, 0
        accept_index[request, 0] = last
        for _ in range(1, accept_index.shape[1]):
            node = int(retrive_next_token[request, node])
            while node != -1 and candidates[request, node] != chosen[last]:
                node = int(retrive_next_sibling[request, node])
            if node == -1:
                break
            predicts[last] = chosen[last]
            accepted += 1
            last = int(retrive_index[request, node])
            accept_index[request, accepted] = last
        accept_token_num[request] = accepted
        predicts[last] = chosen[last]


def tree_speculative_sampling_target_only(
    predicts,
    accept_index,
    accept_token_num,
    candidates,
    retrive_index,
    retrive_next_token,
    retrive_next_sibling,
    uniform_samples,
    uniform_samples_for_final_sampling,
    target_probs,
    draft_probs,
    threshold_single=1.0,
    threshold_acc=1.0,
    deterministic=True,
):
    num_requests, nodes, vocab = target_probs.shape
    _demand(torch.int64, (num_requests, nodes), candidates, retrive_index, retrive_next_token, retrive_next_sibling)
    _demand(torch.int32, (num_requests, accept_index.shape[1]), accept_index)
    _demand(torch.int32, (num_requests,), accept_token_num)
    _demand(torch.int32, (num_requests * nodes,), predicts)
    _demand(torch.float32, (num_requests, nodes), uniform_samples)
    _demand(torch.float32, (num_requests,), uniform_samples_for_final_sampling)
    _demand(torch.float32, (num_requests, nodes, vocab), target_probs, draft_probs)
    assert isinstance(threshold_single, float)
    assert isinstance(threshold_acc, float)
    share = torch.tensor(max(threshold_acc, 1e-9))
    for request in range(num_requests):
        last, row, node, accepted = int(retrive_index[request, 0]), 0, 0, 0
        accept_index[request, 0], mass = last, torch.zeros(())
        for _ in range(1, accept_index.shape[1]):
            node = int(retrive_next_token[request, node])
            while node != -1:
                token = int(candidates[request, node])
                mass = mass + target_probs[request, row, token]
                coin = uniform_samples[request, row]
                if coin <= mass / share or target_probs[request, row, token] >= threshold_single:
                    break
                draft_probs[request, row, token] = target_probs[request, row, token]
                node = int(retrive_next_sibling[request, node])
            if node == -1:
                break
            predicts[last], mass, row = token, torch.zeros(()), node
            accepted += 1
            last = int(retrive_index[request, node])
            accept_index[request, accepted] = last
        accept_token_num[request] = accepted
        left = target_probs[request, row].clone()
        if accepted != accept_index.shape[1] - 1:
            left = (left - draft_probs[request, row]).clamp(min=0)
        running = left.double().cumsum(0)
        above = running > uniform_samples_for_final_sampling[request] * running[-1]
        predicts[last] = int(above.int().argmax()) if above.any() else vocab - 1


def top_k_renorm_prob(probs, top_k):
    _demand(torch.float32, probs.shape, probs)
    _demand(torch.int32, (len(probs),), top_k)
    least = [row.sort(descending=True).values[min(int(k), len(row)) - 1] for row, k in zip(probs, top_k, strict=True)]
    kept = torch.where(probs >= torch.stack(least)[:, None], probs, 0)
    return kept / kept.sum(1, keepdim=True)


def top_p_renorm_prob(probs, top_p):
    _demand(torch.float32, probs.shape, probs)
    _demand(torch.float32, (len(probs),), top_p)
    values, order = probs.double().sort(descending=True)
    before = values.cumsum(1) - values
    kept = torch.zeros_like(values).scatter(1, order, torch.where(before < top_p[:, None].double(), values, 0))
    return (kept / kept.sum(1, keepdim=True)).float()
