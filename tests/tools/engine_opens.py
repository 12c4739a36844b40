#!/usr/bin/env python3
"""What the engine would open with this process's environment, after docs/ENGINE.md and docs/FORMAT.md: a judge that shares no
code with the programs. Exit 0: every layer is found in every file of the mode, and what was made is opened, all of it.

    env -i VLLM_MOE_W2=1 ... engine_opens.py --checkpoint DIR --world W --made DIRECTORY...
"""
import argparse
import hashlib
import json
import os
import re
import struct
import sys

ABI = "tsym4-e8m0-fragmajor-a32-v2"
PREFIX = "VLLM_MOE_W2_"


def key(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:20]


def expert_dtype(directory):
    for name in sorted(os.listdir(directory)):
        if name.endswith(".safetensors"):
            with open(os.path.join(directory, name), "rb") as file:
                header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
            for tensor, entry in header.items():
                if re.search(r"\.experts\.\d+\.\w+\.weight$", tensor) and "mtp" not in tensor:
                    return entry["dtype"]
    sys.exit("no experts")


class Engine:
    def __init__(self, environment, config, dtype, world):
        get = lambda name, default="": environment.get(PREFIX + name, default)
        self.on = environment.get("VLLM_MOE_W2", "0") == "1"
        self.root, self.store = get("PLANES_CACHE"), get("STORE_DIR").strip()
        self.ckpt_id, self.zero_mode = get("CKPT_ID").strip(), get("ZERO_MODE", "auto")
        pool = get("DELTA_GB", "2.0")
        self.host = float(get("BASE_CACHE_GB", "0")) > 0
        if self.host:
            tier = PREFIX + "DELTA_GB" in environment and pool != "auto" and float(pool) > 0
        else:
            tier = pool == "auto" or float(pool) > 0
        self.fp4 = get("DELTA", "1") == "1" and tier
        self.split = get("DELTA_SPLIT", "0") == "1"
        self.fp8, self.world = dtype == "F8_E4M3", world
        text = config.get("text_config", config)
        layers = text["num_hidden_layers"]
        self.experts = next(text[k] for k in ("n_routed_experts", "num_experts", "num_local_experts") if k in text)
        self.cutoff = int(get("NUM_LAYERS", str(layers)))
        first = text.get("first_k_dense_replace", 0)
        self.layers = list(range(first, min(layers, self.cutoff)))
        if get("DRAFT", "0") == "1":
            self.layers += range(layers, self.cutoff)
        h, i = text["hidden_size"], text["moe_intermediate_size"] // world
        elements = {"13": 2 * i * h, "2": h * i}
        fp4 = (lambda n: n * 5 // 16) if self.split else (lambda n: n // 2)
        self.sizes = {}
        for which, n in elements.items():
            self.sizes["planes" + which], self.sizes["sc" + which], self.sizes["fp" + which] = n // 4, n // 32, fp4(n)
        self.problems, self.opened = [], set()

    def fail(self, text):
        self.problems.append(text)

    def cache(self, rank):
        meta = {"version": 2, "quantizer_abi": ABI, "ckpt_id": self.ckpt_id, "world": self.world, "rank": rank,
                "zero_mode": self.zero_mode, "fp4_split": "w4q" if self.split else False}
        directory = os.path.join(self.root, "v2", key(meta), "tp%d-rank%d" % (self.world, rank))
        path = os.path.join(directory, "meta.json")
        try:
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
        except OSError as error:
            return self.fail(str(error))
        self.opened.add(path)
        if found != meta:
            return self.fail("%s differs" % path)
        parts = ["planes13", "sc13", "planes2", "sc2"] + (["fp13", "fp2"] if self.fp4 else [])
        for layer in self.layers:
            for part in parts:
                path = os.path.join(directory, "layer%d.%s.bin" % (layer, part))
                self.opened.add(path)
                if not os.path.isfile(path) or os.path.getsize(path) != self.experts * self.sizes[part]:
                    self.fail("%s: missing or of another size" % path)

    def packs(self):
        if not self.host:
            return {"delta": ["fp13", "fp2"]} if self.fp4 else {}
        packs = {"base": ["planes13", "sc13", "planes2", "sc2"]}
        if self.fp4:
            packs.update({"fp4q": ["fp13", "fp2"]} if self.split else {"fp4": ["fp13", "sc13", "fp2", "sc2"]})
        return packs

    def pack(self, tag, sections, rank):
        slot = sum(self.sizes[s] for s in sections)
        stride, n_layers = (slot + 4095) // 4096 * 4096, self.cutoff + 1
        spec = {"E": self.experts, "ckpt_id": self.ckpt_id, "n_layers": n_layers, "quantizer_abi": ABI, "slot_bytes": slot,
                "stride": stride, "tag": tag, "zero_mode": self.zero_mode}
        stem = os.path.join(self.store, "%s.v2.%s.rank%dof%d" % (tag, key(spec), rank, self.world))
        self.opened.update(stem + suffix for suffix in (".pack", ".json", ".lock"))
        try:
            with open(stem + ".json", encoding="utf-8") as file:
                sidecar = json.load(file)
            length = os.path.getsize(stem + ".pack")
        except OSError as error:
            return self.fail(str(error))
        listed = sidecar.pop("layers")
        if sidecar != dict(spec, version=2) or length != n_layers * self.experts * stride:
            return self.fail("%s would be emptied" % stem)
        for layer_key in range(len(self.layers)):
            if layer_key not in listed:
                self.fail("%s does not list layer key %d" % (stem, layer_key))

    def boot(self):
        if not self.on:
            return self.fail("the 2-bit path is off")
        if not self.host and self.fp8:
            self.fail("the experts of an FP8 checkpoint are read at every start")
        if not self.host and not self.root or self.host and not self.store:
            self.fail("the checkpoint's experts are read at every start")
        for rank in range(self.world):
            if self.root and not self.fp8:
                self.cache(rank)
            if self.store:
                for tag, sections in self.packs().items():
                    self.pack(tag, sections, rank)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--made", nargs="*", default=[])
    arguments = parser.parse_args()
    with open(os.path.join(arguments.checkpoint, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    engine = Engine(os.environ, config, expert_dtype(arguments.checkpoint), arguments.world)
    engine.boot()
    for directory in arguments.made:
        for top, _, files in os.walk(os.path.abspath(directory)):
            for name in files:
                path = os.path.join(top, name)
                if not name.endswith("manifest.json") and path not in engine.opened:
                    engine.fail("%s was made and is not opened" % path)
    for problem in engine.problems:
        print(problem)
    sys.exit(1 if engine.problems else 0)


if __name__ == "__main__":
    main()
