"""An independent judge of size-tiers: curve and replays computed the slow way with NumPy.

replay.py TRACE.npy... < JSON of `size-tiers --json`: compares every row of "lru" and "policies"; exits 1 with the first
difference. Sessions follow one another."""
import json
import sys

import numpy as np


def frames(paths):
    out, last = [], 0
    for number, path in enumerate(paths):
        rows = np.load(path)
        base = 0 if number == 0 else last + 2
        for tick in np.unique(rows[:, 0]):
            block = np.unique(rows[rows[:, 0] == tick][:, 1:], axis=0)
            last = base + int(tick)
            out.append((last, [tuple(int(x) for x in row) for row in block]))
    return out


def lru(trace, slots):
    pool, hits = {}, 0  # a dict keeps the order of insertion: oldest first
    for _, pairs in trace:
        for pair in pairs:
            if pair in pool:
                hits += 1
                del pool[pair]
            pool[pair] = None
            if len(pool) > slots:
                del pool[next(iter(pool))]
    return hits


def belady(trace, slots, warm_up):
    uses = [(pair, i >= warm_up) for i, (_, pairs) in enumerate(trace) for pair in pairs]
    following, coming = {}, [float("inf")] * len(uses)
    for i in range(len(uses) - 1, -1, -1):
        pair, counts = uses[i]
        coming[i] = following.get(pair, float("inf"))
        if counts:
            following[pair] = i
    pool, hits = {}, 0
    for i, (pair, counts) in enumerate(uses):
        if pair in pool:
            hits += counts
            pool[pair] = coming[i]
        elif coming[i] != float("inf") and slots:
            if len(pool) == slots:
                last = max(pool, key=lambda p: pool[p])
                if pool[last] < coming[i]:
                    continue
                del pool[last]
            pool[pair] = coming[i]
    return hits


def replay(trace, policy, slots):
    name, *options = policy.split(":")
    options = dict(option.split("=") for option in options if option)
    warm_up = int(len(trace) * 0.15)
    if name == "belady":
        return belady(trace, slots, warm_up)
    order, victim = {"engine": ("freq", "aged-lfu"), "need": ("none", "lru")}.get(name) or name.split("/")
    promote, threshold = int(options.get("promote", 8)), int(options.get("threshold", 1))
    cap, hyst = int(options["cap"]) if "cap" in options else None, float(options.get("hyst", 0))
    used, last, pool, hits = {}, {}, set(), 0

    def rank(pair):
        return (0 if victim == "lru" else used[pair], last[pair], pair)

    for number, (tick, pairs) in enumerate(trace):
        if number >= warm_up:
            hits += sum(pair in pool for pair in pairs)
        for pair in pairs:
            used[pair] = used.get(pair, 0) + 1
            last[pair] = tick
        candidates = [p for p in pairs if p not in pool and used[p] >= threshold and order != "none"]
        if order == "freq":
            candidates.sort(key=lambda p: -used[p])
        if order == "round-robin":
            seen = {}
            turns = []
            for p in candidates:
                turns.append((seen.get(p[0], 0), p))
                seen[p[0]] = seen.get(p[0], 0) + 1
            candidates = [p for _, p in sorted(turns)]
        promoted = 0
        for pair in candidates:
            if promoted == promote:
                break
            if cap is not None and sum(p[0] == pair[0] for p in pool) >= cap:
                continue
            if len(pool) >= slots:
                cold = [p for p in pool if tick - last[p] >= 2]
                if not cold:
                    break
                leaves = min(cold, key=rank)
                if hyst > 1 and used[pair] <= hyst * used[leaves] + 4:
                    continue
                pool.remove(leaves)
            pool.add(pair)
            promoted += 1
        if (number + 1) % 1000 == 0 and victim == "aged-lfu":
            for pair in used:
                used[pair] *= 0.5
    return hits


def main():
    trace = frames(sys.argv[1:])
    said = json.load(sys.stdin)
    wrong = 0
    checks = [("lru", row, lru(trace, row["slots"])) for row in said["lru"]]
    checks += [(row["policy"], row, replay(trace, row["policy"], row["slots"])) for row in said["policies"]]
    for name, row, hits in checks:
        if row["hits"] != hits:
            print(f"{name} at {row['slots']} slots: {row['hits']} hits, {hits} expected", file=sys.stderr)
            wrong += 1
    accesses = sum(len(pairs) for _, pairs in trace)
    if said["accesses"] != accesses:
        print(f"{said['accesses']} accesses, {accesses} expected", file=sys.stderr)
        wrong += 1
    print(f"{len(checks)} rows compared")
    sys.exit(1 if wrong else 0)


main()
