"""Checkpoints of hard values in the layouts of many producers, for rewrite_judge.py: safetensors, read and written with NumPy
alone."""
import glob
import json
import os
import struct
import sys

import numpy as np

SIZES = {"I32": 4, "I16": 2, "BF16": 2, "F16": 2, "F32": 4, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E8M0": 1}


# --- safetensors ---

class Tensor:
    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, list(shape), bytes(data)
        assert len(self.data) == SIZES[dtype] * int(np.prod(shape, dtype=np.int64)), (dtype, shape, len(self.data))

    def __eq__(self, other):
        return (self.dtype, self.shape, self.data) == (other.dtype, other.shape, other.data)

    def raw(self):
        return np.frombuffer(self.data, {1: "u1", 2: "<u2", 4: "<u4"}[SIZES[self.dtype]]).reshape(self.shape)

    def floats(self):
        if self.dtype == "BF16":
            return (self.raw().astype(np.uint32) << 16).view(np.float32)
        if self.dtype == "F16":
            return self.raw().view(np.float16).astype(np.float32)
        if self.dtype == "F32":
            return self.raw().view(np.float32)
        raise AssertionError(self.dtype)


def read(directory):
    tensors, where = {}, {}
    for path in sorted(glob.glob(directory + "/*.safetensors")):
        with open(path, "rb") as file:
            data = file.read()
        n = struct.unpack("<Q", data[:8])[0]
        for name, entry in json.loads(data[8:8 + n]).items():
            if name == "__metadata__":
                continue
            begin, end = entry["data_offsets"]
            assert name not in tensors, name + " is there twice"
            tensors[name] = Tensor(entry["dtype"], entry["shape"], data[8 + n + begin:8 + n + end])
            where[name] = os.path.basename(path)
    index = directory + "/model.safetensors.index.json"
    if os.path.exists(index):
        with open(index) as file:
            index = json.load(file)
        assert index["weight_map"] == where, "the index is not what the shards hold"
        assert index["metadata"]["total_size"] == sum(len(t.data) for t in tensors.values())
    return tensors


def write(directory, tensors, config, shards=2):
    os.makedirs(directory)
    names = sorted(tensors)
    weight_map = {}
    for number in range(shards):
        file_name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        header, data = {"__metadata__": {"format": "pt"}}, []
        # Tensors of one module in several shards; in a shard the widest types first, as safetensors writes them.
        for name in sorted(names[number::shards], key=lambda name: (-SIZES[tensors[name].dtype], name)):
            t, begin = tensors[name], sum(map(len, data))
            header[name] = {"dtype": t.dtype, "shape": t.shape, "data_offsets": [begin, begin + len(t.data)]}
            data.append(t.data)
            weight_map[name] = file_name
        text = json.dumps(header).encode()
        with open(f"{directory}/{file_name}", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + b"".join(data))
    with open(directory + "/model.safetensors.index.json", "w") as file:
        json.dump({"metadata": {"total_size": sum(len(t.data) for t in tensors.values())}, "weight_map": weight_map}, file)
    with open(directory + "/config.json", "w") as file:
        json.dump(config, file, indent=2)


# --- making ---

E, H, I, LAYERS = 3, 192, 64, 3


def hard_values(rng, shape, dtype, kind):
    """kind: what is special about this expert."""
    top = {"BF16": (255, 7), "F16": (31, 10), "F32": (255, 23)}[dtype]
    w = rng.standard_normal(shape) * 0.02
    if kind == "constant":
        w = np.full(shape, -0.0078125)
    elif kind == "zeros":
        w = np.zeros(shape)
    elif kind == "tail":
        w.ravel()[w.size // 3:] = 0
    elif kind == "outlier":
        w.ravel()[5] = 3.0
    elif kind == "ties":  # quotients on the thresholds
        w = rng.choice([0, .25, .5, .75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6], shape) * rng.choice([-1, 1], shape) * 2.0 ** -6
        w.reshape(-1, 16)[:, 0] = 6 * 2.0 ** -6
    with np.errstate(over="ignore"):
        if dtype == "F16":
            bits = w.astype("<f2").view("<u2")
        else:
            bits = w.astype("<f4").view("<u4")
            bits = (bits >> 16).astype("<u2") if dtype == "BF16" else bits
    if kind == "subnormal":
        bits = rng.integers(0, 1 << top[1], shape).astype(bits.dtype)
    elif kind == "wild":
        exponent = rng.integers(0, top[0], shape)
        bits = (exponent << top[1] | rng.integers(0, 1 << top[1], shape)).astype(bits.dtype)
    if kind in ("subnormal", "wild"):
        bits |= (rng.integers(0, 2, shape) << (8 * bits.dtype.itemsize - 1)).astype(bits.dtype)
    return bits


def base(prefix, block, **more):
    rng = np.random.default_rng(7)
    tensors = {}

    def floats(name, *shape, dtype="BF16"):
        tensors[name] = Tensor(dtype, shape, hard_values(rng, shape, dtype, "").tobytes())

    floats("lm_head.weight", 48, H)
    floats(prefix + "embed_tokens.weight", 48, H)
    floats(prefix + "norm.weight", H)
    for layer in range(LAYERS):
        at = f"{prefix}layers.{layer}."
        floats(at + "input_layernorm.weight", H)
        floats(at + "self_attn.o_proj.weight", H, H)
        if layer == 0:
            for name, shape in (("gate_proj", (I, H)), ("up_proj", (I, H)), ("down_proj", (H, I))):
                floats(f"{at}{block}.{name}.weight", *shape)
            continue
        floats(f"{at}{block}.gate.weight", E, H)
        floats(f"{at}{block}.gate.e_score_correction_bias", E, dtype="F32")
        for name, shape in (("gate_proj", (I, H)), ("up_proj", (I, H)), ("down_proj", (H, I))):
            floats(f"{at}{block}.shared_experts.{name}.weight", *shape)
    config = {"architectures": ["Test"], "model_type": "test", "num_hidden_layers": LAYERS, "n_routed_experts": E,
              "hidden_size": H, "moe_intermediate_size": I, "first_k_dense_replace": 1, **more}
    return rng, tensors, floats, config


def make_floats(directory, dtype="BF16", prefix="model.", block="mlp", fused="", drafter="", nested="", seed="1", kinds=""):
    rng, tensors, floats, config = base(prefix, block)
    rng = np.random.default_rng(int(seed))
    names = ("gate_proj", "up_proj", "down_proj") if block == "mlp" else ("w1", "w3", "w2")
    kinds = iter([""] * 6 if kinds == "plain" else ["", "constant", "zeros", "wild", "subnormal", "tail"] if int(seed) % 2 else
                 ["ties", "outlier", "wild", "", "zeros", "subnormal"])
    for layer in range(1, LAYERS):
        experts = []
        for _ in range(E):
            kind = next(kinds)
            experts.append([hard_values(rng, shape, dtype, kind) for shape in ((I, H), (I, H), (H, I))])
        experts[2] = experts[0] if layer == 2 and int(seed) % 3 == 0 else experts[2]  # two of them identical
        stem = f"{prefix}layers.{layer}.{block}.experts."
        if fused:
            gate_up = np.stack([np.concatenate(e[:2]) for e in experts])
            down = np.stack([e[2] for e in experts])
            suffix = ".weight" if fused == "weight" else ""
            tensors[f"{stem}gate_up_proj{suffix}"] = Tensor(dtype, gate_up.shape, gate_up.tobytes())
            tensors[f"{stem}down_proj{suffix}"] = Tensor(dtype, down.shape, down.tobytes())
        else:
            for e, matrices in enumerate(experts):
                for name, w in zip(names, matrices):
                    tensors[f"{stem}{e}.{name}.weight"] = Tensor(dtype, w.shape, w.tobytes())
    if drafter:  # its experts, dense ones and norms stay as they are
        at = f"{prefix}layers.{LAYERS}." if drafter == "layer" else drafter
        config["num_nextn_predict_layers"] = 1
        floats(at + "eh_proj.weight", H, 2 * H)
        floats(at + "enorm.weight", H)
        if fused:
            floats(f"{at}{block}.experts.gate_up_proj", E, 2 * I, H)
            floats(f"{at}{block}.experts.down_proj", E, H, I)
        else:
            for e in range(E):
                for name, shape in zip(names, ((I, H), (I, H), (H, I))):
                    floats(f"{at}{block}.experts.{e}.{name}.weight", *shape)
    if nested:
        outer = ("architectures", "model_type")
        config = {**{k: config[k] for k in outer}, "text_config": {k: v for k, v in config.items() if k not in outer}}
    write(directory, tensors, config)


def e2m1_bytes(rng, rows, cols):
    return rng.integers(0, 256, (rows, cols // 2)).astype(np.uint8)


def e4m3_bytes(rng, *shape):
    codes = rng.integers(0, 127, shape) | rng.integers(0, 2, shape) << 7
    return codes.astype(np.uint8)


def put(tensors, name, dtype, array):
    tensors[name] = Tensor(dtype, array.shape, np.ascontiguousarray(array).tobytes())


def add_nvfp4(tensors, rng, s, rows, cols, activations):
    put(tensors, s + ".weight_packed", "U8", e2m1_bytes(rng, rows, cols))
    put(tensors, s + ".weight_scale", "F8_E4M3", e4m3_bytes(rng, rows, cols // 16) & 0x7F)
    put(tensors, s + ".weight_global_scale", "F32", rng.uniform(100, 90000, 1).astype(np.float32))
    if activations:
        put(tensors, s + ".input_global_scale", "F32", rng.uniform(1, 3000, 1).astype(np.float32))


def add_mxfp4(tensors, rng, s, rows, cols, weight, scale, spread, top):
    put(tensors, f"{s}.{weight}", "U8", e2m1_bytes(rng, rows, cols))
    exponents = rng.integers(top - spread, top + 1, (rows, cols // 32)).astype(np.uint8)
    put(tensors, f"{s}.{scale}", "U8", exponents)


def add_fp8(tensors, rng, s, rows, cols, block, word, dtype):
    put(tensors, s + ".weight", "F8_E4M3", e4m3_bytes(rng, rows, cols))
    scales = rng.uniform(1e-4, 1e-2, (-(-rows // block[0]), -(-cols // block[1]))).astype(np.float32)
    if dtype == "BF16":
        put(tensors, f"{s}.{word}", dtype, (scales.view("<u4") >> 16).astype("<u2"))
    elif dtype == "F8_E8M0":
        put(tensors, f"{s}.{word}", dtype, (scales.view("<u4") >> 23).astype(np.uint8))
    else:
        put(tensors, f"{s}.{word}", dtype, scales)


def weights(bits, kind="float", **more):
    return {"num_bits": bits, "type": kind, "dynamic": False, "symmetric": True, **more}


NVFP4 = weights(4, group_size=16, strategy="tensor_group")
MXFP4 = weights(4, group_size=32, strategy="group")
FP8 = weights(8, strategy="block", block_structure=[32, 32])
FP8_128 = weights(8, strategy="block", block_structure=[128, 128])


def compressed(groups, form, ignore):
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": groups, "ignore": ignore,
            "quantization_status": "compressed"}


def experts_of(prefix, block):
    names = ("gate_proj", "up_proj", "down_proj") if block == "mlp" else ("w1", "w3", "w2")
    for layer in range(1, LAYERS):
        for e in range(E):
            for name, shape in zip(names, ((I, H), (I, H), (H, I))):
                yield f"{prefix}layers.{layer}.{block}.experts.{e}.{name}", *shape


def make_quantized(kind, directory, prefix="model.", block="mlp", seed="1", spread="17", top="125", model="test"):
    _, tensors, floats, config = base(prefix, block)
    config["model_type"] = model
    rng = np.random.default_rng(int(seed))
    spread, top = int(spread), int(top)
    ignore = ["lm_head", "re:.*gate$", "re:.*self_attn.*", "re:.*shared_experts.*", rf"re:.*layers\.0\.{block}\..*"]
    if kind in ("ct-nvfp4", "ct-nvfp4-act"):
        for s, rows, cols in experts_of(prefix, block):
            add_nvfp4(tensors, rng, s, rows, cols, kind.endswith("act"))
        group = {"targets": ["Linear"], "weights": NVFP4, "input_activations": NVFP4 if kind.endswith("act") else None,
                 "format": "nvfp4-pack-quantized"}
        config["quantization_config"] = compressed({"group_0": group}, "nvfp4-pack-quantized", ignore)
    elif kind == "ct-mxfp4":
        for s, rows, cols in experts_of(prefix, block):
            add_mxfp4(tensors, rng, s, rows, cols, "weight_packed", "weight_scale", spread, top)
        config["quantization_config"] = compressed(
            {"group_0": {"targets": ["Linear"], "weights": MXFP4, "input_activations": None}}, "mxfp4-pack-quantized", ignore)
    elif kind in ("modelopt-mxfp4", "quark-mxfp4"):
        for s, rows, cols in experts_of(prefix, block):
            add_mxfp4(tensors, rng, s, rows, cols, "weight", "weight_scale", spread, top)
        if kind.startswith("quark"):
            config["quantization_config"] = {
                "quant_method": "quark", "exclude": ["lm_head", "re:.*gate$", "*self_attn*", "*shared_experts*", f"*layers.0.{block}*"],
                "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32, "qscheme": "per_group", "scale_format": "e8m0"},
                                        "input_tensors": None}}
        else:
            config["quantization_config"] = {"quant_method": "modelopt", "quant_algo": "MXFP4", "ignore": [
                "lm_head", "*embed_tokens", "*.gate", "*self_attn*", "*shared_experts*", f"*layers.0.{block}*"]}
    elif kind in ("ct-fp8", "fp8-bf16", "fp8-fused-scales", "fp8-fused", "fp8-fused-e8m0"):
        fused = kind.startswith("fp8-fused")
        word, dtype = ("weight_scale", "BF16") if kind == "ct-fp8" else ("weight_scale_inv", "BF16")
        if fused:
            dtype = "F8_E8M0" if kind.endswith("e8m0") else "F32"
        for s, rows, cols in experts_of(prefix, block):
            add_fp8(tensors, rng, s, rows, cols, (32, 32), word, dtype)
        if kind == "ct-fp8":
            config["quantization_config"] = compressed(
                {"group_0": {"targets": ["Linear"], "weights": FP8, "format": "float-quantized",
                             "input_activations": weights(8, strategy="group", group_size=32)}}, "float-quantized", ignore)
        else:
            config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [32, 32], "activation_scheme": "dynamic",
                                             "modules_to_not_convert": ["lm_head", "gate", "self_attn", "shared_experts"]}
        if fused:
            for layer in range(1, LAYERS):
                stem = f"{prefix}layers.{layer}.{block}.experts."
                for word, suffix in (("weight_scale_inv", "_scale_inv"),) + ((("weight", ""),) if kind != "fp8-fused-scales" else ()):
                    take = [[tensors.pop(f"{stem}{e}.{n}.{word}") for n in ("gate_proj", "up_proj", "down_proj")] for e in range(E)]
                    put(tensors, f"{stem}gate_up_proj{suffix}", take[0][0].dtype,
                        np.stack([np.concatenate([t[0].raw(), t[1].raw()]) for t in take]))
                    put(tensors, f"{stem}down_proj{suffix}", take[0][0].dtype, np.stack([t[2].raw() for t in take]))
    elif kind == "nvfp4-fused":  # all of a layer in one tensor, in modelopt's words
        for s, rows, cols in experts_of(prefix, block):
            add_nvfp4(tensors, rng, s, rows, cols, True)
        for layer in range(1, LAYERS):
            stem = f"{prefix}layers.{layer}.{block}.experts."
            for old, new in (("weight_packed", ""), ("weight_scale", ".weight_scale"), ("weight_global_scale", ".weight_scale_2"),
                             ("input_global_scale", ".input_scale")):
                take = [[tensors.pop(f"{stem}{e}.{n}.{old}") for n in ("gate_proj", "up_proj", "down_proj")] for e in range(E)]
                put(tensors, f"{stem}gate_up_proj{new}", take[0][0].dtype, np.stack([np.concatenate([t[0].raw(), t[1].raw()]) for t in take]))
                down = np.stack([t[2].raw() for t in take])
                put(tensors, f"{stem}down_proj{new}", take[0][0].dtype, down.reshape(E) if down.ndim == 2 and down.shape[1] == 1 else down)
        config["quantization_config"] = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head", "*.gate", "*self_attn*", "*shared_experts*", f"*layers.0.{block}*"]}
    elif kind == "ct-mixed":  # experts NVFP4, down projections of layer 2 MXFP4 by an overlapping group, attention FP8 in blocks
        for s, rows, cols in experts_of(prefix, block):
            if ".layers.2." in s and s.endswith("down_proj"):
                add_mxfp4(tensors, rng, s, rows, cols, "weight_packed", "weight_scale", 5, 124)
            else:
                add_nvfp4(tensors, rng, s, rows, cols, True)
        for layer in (0, 2):  # that of layer 1 is ignored
            s = f"{prefix}layers.{layer}.self_attn.o_proj"
            del tensors[s + ".weight"]
            add_fp8(tensors, rng, s, H, H, (128, 128), "weight_scale", "BF16")
        groups = {"z_first": {"targets": [r"re:.*layers\.2\..*down_proj"], "weights": MXFP4, "format": "mxfp4-pack-quantized"},
                  "attention": {"targets": ["re:.*self_attn.*"], "weights": FP8_128, "format": "float-quantized",
                                "input_activations": weights(8, strategy="group", group_size=32)},
                  "a_last": {"targets": ["re:.*experts.*", "Linear"], "weights": NVFP4, "input_activations": NVFP4,
                             "format": "nvfp4-pack-quantized"}}
        config["quantization_config"] = compressed(groups, "mixed-precision", ["lm_head", "re:.*gate$", r"re:.*layers\.1\.self_attn.*",
                                                   "re:.*shared_experts.*", rf"re:.*layers\.0\.{block}\..*"])
        config["quantization_config"]["kv_cache_scheme"] = weights(8)
        for layer in range(LAYERS):
            put(tensors, f"{prefix}layers.{layer}.self_attn.k_scale", "F32", np.array([0.5 + layer], np.float32))
    else:
        make_unserved(kind, tensors, rng, config, experts_of(prefix, block), ignore)
    write(directory, tensors, config)


# What other tools write for a matrix: dtype, and how many columns of the matrix are one of the tensor.
OTHERS = {
    "torchao": {"_weight_qdata": ("I8", 1), "_weight_scale": ("BF16", 64)},
    "hqq": {"W_q": ("U8", 2), "scale": ("F16", 64), "zero": ("F16", 64)},
    "quanto": {"weight._data": ("I8", 1), "weight._scale": ("BF16", 64), "input_scale": ("F32", 64)},
    "exl3": {"trellis": ("I16", 4), "suh": ("F16", 64), "svh": ("F16", 64)},
    "eetq": {"weight": ("I8", 1), "weight_scales": ("F16", 64)},
    "w4afp8": {"weight": ("I8", 2), "weight_scale_inv": ("BF16", 64)},
    "later": {"weight": ("U8", 2), "weight_scale_inv": ("F16", 64)},
    "modelopt-w4a8": {"weight": ("U8", 2), "weight_scale": ("F8_E4M3", 32), "weight_scale_2": ("F32", 64)},
    "ct-uncompressed": {"weight": ("BF16", 1), "weight_scale": ("BF16", 64), "weight_zero_point": ("I8", 64)},
}


def make_unserved(kind, tensors, rng, config, modules, ignore):
    """Layouts that nothing makes served: GPTQ, AWQ, bitsandbytes, int8, MXFP8, FP8 with a scale for a row or a tensor."""
    for s, rows, cols in modules:
        if kind in ("gptq", "awq"):
            put(tensors, s + ".qweight", "I32", rng.integers(0, 1 << 31, (rows, cols // 8)).astype(np.uint32))
            put(tensors, s + ".qzeros", "I32", rng.integers(0, 1 << 31, (rows, cols // 64)).astype(np.uint32))
            put(tensors, s + ".scales", "F16", rng.integers(0, 1 << 14, (rows, cols // 32)).astype(np.uint16))
        elif kind == "bnb":
            put(tensors, s + ".weight", "U8", rng.integers(0, 256, (rows * cols // 2, 1)).astype(np.uint8))
            put(tensors, s + ".weight.absmax", "F32", rng.uniform(1e-4, 1e-2, rows * cols // 64).astype(np.float32))
            put(tensors, s + ".weight.quant_map", "F32", np.linspace(-1, 1, 16, dtype=np.float32))
            put(tensors, s + ".weight.quant_state.bitsandbytes__nf4", "U8", np.zeros(90, np.uint8))
        elif kind in OTHERS:
            for word, (dtype, of_columns) in OTHERS[kind].items():
                shape = (rows, cols // of_columns)
                tensors[f"{s}.{word}"] = Tensor(dtype, shape, bytes(SIZES[dtype] * int(np.prod(shape))))
        elif kind == "hf-fp8-tensor":
            put(tensors, s + ".weight", "F8_E4M3", e4m3_bytes(rng, rows, cols))
            put(tensors, s + ".weight_scale_inv", "F32", np.array(0.01, np.float32))
        elif kind == "int8":
            put(tensors, s + ".weight", "I8", rng.integers(0, 256, (rows, cols)).astype(np.uint8))
            put(tensors, s + ".weight_scale", "BF16", rng.integers(0, 1 << 14, (rows, 1)).astype(np.uint16))
        elif kind == "int4":
            put(tensors, s + ".weight_packed", "I32", rng.integers(0, 1 << 31, (rows, cols // 8)).astype(np.uint32))
            put(tensors, s + ".weight_scale", "BF16", rng.integers(0, 1 << 14, (rows, cols // 32)).astype(np.uint16))
        elif kind in ("ct-channel", "fbgemm", "ct-tensor", "modelopt-fp8", "ct-mxfp8", "modelopt-mxfp8", "ar-mxfp8"):
            put(tensors, s + ".weight", "F8_E4M3", e4m3_bytes(rng, rows, cols))
            if kind.endswith("mxfp8"):
                put(tensors, s + ".weight_scale", "U8", rng.integers(100, 130, (rows, cols // 32)).astype(np.uint8))
            else:
                shape = [] if kind == "modelopt-fp8" else [1] if kind == "ct-tensor" else [rows, 1]
                put(tensors, s + ".weight_scale", "F32", rng.uniform(1e-4, 1e-2, shape or ()).astype(np.float32).reshape(shape))
        else:
            sys.exit(f"no layout {kind}")
    fp8 = {"strategy": "tensor" if kind == "ct-tensor" else "channel"}
    config["quantization_config"] = {
        **{name: {"quant_method": name} for name in OTHERS},
        "modelopt-w4a8": {"quant_method": "modelopt", "quant_algo": "W4A8_NVFP4_FP8", "ignore": ["lm_head"]},
        "ct-uncompressed": compressed({"group_0": {"targets": ["Linear"], "weights": weights(8, "int", strategy="channel")}},
                                      "dense", ignore),
        "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 32}, "awq": {"quant_method": "awq", "bits": 4, "group_size": 32},
        "bnb": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
        "hf-fp8-tensor": {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None},
        "int8": compressed({"group_0": {"targets": ["Linear"], "weights": weights(8, "int", strategy="channel")}}, "int-quantized", ignore),
        "int4": compressed({"group_0": {"targets": ["Linear"], "weights": weights(4, "int", strategy="group", group_size=32)}},
                           "pack-quantized", ignore),
        "ct-channel": compressed({"group_0": {"targets": ["Linear"], "weights": weights(8, **fp8)}}, "float-quantized", ignore),
        "ct-tensor": compressed({"group_0": {"targets": ["Linear"], "weights": weights(8, **fp8)}}, "float-quantized", ignore),
        "ct-mxfp8": compressed({"group_0": {"targets": ["Linear"], "weights": weights(8, strategy="group", group_size=32)}},
                               "mxfp8-quantized", ignore),
        "ar-mxfp8": {"quant_method": "auto-round", "bits": 8, "data_type": "mx_fp", "group_size": 32, "act_bits": 8},
        "fbgemm": {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["lm_head"]},
        "modelopt-fp8": {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]},
        "modelopt-mxfp8": {"quant_method": "modelopt", "quant_algo": "MXFP8", "ignore": ["lm_head"]}}[kind]
