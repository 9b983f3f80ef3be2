"""Samplers with planted faults: plain walks whose one wrong step a flag switches on."""

import numpy as np

TREE_FAULTS = {
    "V01": "the coin that rejected the last child draws the last token",
    "V02": "a coin at the boundary is accepted, at probability 0 too",
    "V03": "a child is tested against its own row",
    "V28": "every coin is 0",
    "V29": "a draft is accepted if an independent draw of the target equals it",
    "SYN5": "the mass is not reset one level down",
    "SYN6": "rejected children stay in the distribution",
    "DUPLICATES": "equal siblings count again",
    "GREEDY": "the likeliest token is taken",
}
CHAIN_FAULTS = {
    "V01": "the coin that rejected the draft draws the last token",
    "V05": "only the rejected token's entry is reduced",
    "V06": "every draft is accepted",
    "V08": "the proposal's law is returned before it was cut and renormalised",
    "V13": "drafts that were drawn count as certain",
    "V11": "the last coin is the draft's coin, as accepted and rejected share a counter",
}


def draw(weights, coin):
    sums = np.cumsum(weights)
    beyond = np.flatnonzero(sums > coin * sums[-1])
    return int(beyond[0]) if len(beyond) else int(np.flatnonzero(weights > 0)[-1]) if (weights > 0).any() else 0


def tree_sampler(fault=None):
    def tree_speculative_sampling_target_only(
        candidates,
        retrieve_index,
        retrieve_next_token,
        retrieve_next_sibling,
        uniform_samples,
        uniform_samples_for_final_sampling,
        target_probs,
        draft_probs,
        threshold_single,
        threshold_acc,
        num_steps,
        strict=True,
        skip_duplicates=True,
    ):
        predict = np.zeros(candidates.size, dtype=np.int32)
        accept_index = np.full((len(candidates), num_steps + 1), -1, dtype=np.int32)
        drafts = np.zeros(len(candidates), dtype=np.int32)
        for request in range(len(candidates)):
            rows, coins = target_probs[request].astype(float), uniform_samples[request].astype(float)
            last_coin = float(uniform_samples_for_final_sampling[request])
            if fault == "V28":
                coins, last_coin = coins * 0, last_coin * 0
            path, tokens, rejected, mass = [0], [], set(), 0.0
            while len(path) <= num_steps:
                last, rejected, child = path[-1], set(), int(retrieve_next_token[request, path[-1]])
                mass = mass if fault == "SYN5" else 0.0
                while child >= 0:
                    token = int(candidates[request, child])
                    chance = rows[child if fault == "V03" else last][token]
                    if not (skip_duplicates and token in rejected and fault != "DUPLICATES"):
                        mass += chance
                        is_below = coins[last] < mass / max(threshold_acc[request], 1e-9)
                        if fault == "V02":
                            is_below = coins[last] <= mass
                        if fault == "V29":
                            is_below = draw(rows[last], coins[last]) == token and coins[last] < 0.5
                        single = chance >= threshold_single[request]
                        if (chance > 0 or fault == "V02") and (is_below or single):
                            break
                        rejected.add(token)
                    child = int(retrieve_next_sibling[request, child])
                if child < 0:
                    break
                path.append(child)
                tokens.append(int(candidates[request, child]))
                rejected = set()
            weights = rows[path[-1]].copy()
            if fault != "SYN6":
                weights[sorted(rejected)] = 0
            coin = coins[path[-1]] if fault == "V01" and rejected else last_coin
            tokens.append(int(np.argmax(weights)) if fault == "GREEDY" else draw(weights, coin))
            for place, node in enumerate(path):
                accept_index[request, place] = retrieve_index[request, node]
                predict[retrieve_index[request, node]] = tokens[place]
            drafts[request] = len(path) - 1
        return predict, accept_index, drafts

    return tree_speculative_sampling_target_only


def chain_sampler(fault=None):
    def chain_speculative_sampling(
        draft_tokens,
        cu_num_drafts,
        uniform_samples,
        uniform_samples_for_final_sampling,
        draft_probs,
        target_probs,
        max_num_drafts,
    ):
        count = len(cu_num_drafts) - 1
        output = np.full((count, max_num_drafts + 1), -1, dtype=np.int32)
        for request in range(count):
            first, last = cu_num_drafts[request : request + 2]
            tokens, last_coin = [], float(uniform_samples_for_final_sampling[request])
            weights = None
            for place in range(first, last):
                token = int(draft_tokens[place])
                if token < 0:
                    break
                target = target_probs[place + request].astype(float)
                proposal = np.zeros(len(target))
                if draft_probs is None or fault == "V13":
                    proposal[token] = 1
                elif fault == "V08":
                    proposal = 0.75 * draft_probs[place] + 0.25 / len(target)
                else:
                    proposal = draft_probs[place].astype(float)
                coin = float(uniform_samples[place])
                if fault == "V06" or coin * proposal[token] < target[token]:
                    tokens.append(token)
                    continue
                weights = np.maximum(target - proposal, 0)
                if fault == "V05":
                    weights = target.copy()
                    weights[token] = max(target[token] - proposal[token], 0)
                if fault in ("V01", "V11"):
                    last_coin = coin
                break
            if weights is None:
                weights = target_probs[first + len(tokens) + request].astype(float)
            tokens.append(draw(weights, last_coin))
            output[request, : len(tokens)] = tokens
        return output, (output >= 0).sum(axis=1).astype(np.int32) - 1

    return chain_speculative_sampling
