"""An independent judge of repack-experts quantize and translate, in NumPy: it makes checkpoints of hard values, and works
out what must come of them by the formats' definitions.

    rewrite_judge.py make KIND DIR [key=value...]     KIND: floats, or a layout of hard_checkpoints.py
    rewrite_judge.py quantized SOURCE TARGET nvfp4|mxfp4
    rewrite_judge.py costs SOURCE < JSON of `analyze --json`: what NVFP4 and the 2-bit codebook are off the floats
    rewrite_judge.py translated SOURCE TARGET         every module dequantized on both sides in float64, all else identical

Exits 1 with the first difference."""
import json
import re
import sys

import numpy as np

from hard_checkpoints import Tensor, make_floats, make_quantized, read

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


# --- number formats, from their definitions ---

def e4m3_values():
    out = []
    for code in range(256):
        sign, exponent, mantissa = code >> 7, code >> 3 & 15, code & 7
        value = mantissa * 2.0 ** -9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
        out.append(float("nan") if code & 127 == 127 else -value if sign else value)
    return np.array(out, np.float32)


E4M3 = e4m3_values()


def nearest_even(x, values):
    """Indices of the nearest of ascending values; halfway, the even index."""
    middle = (values[1:].astype(np.float64) + values[:-1].astype(np.float64)) / 2
    x = x.astype(np.float64)
    low = np.searchsorted(middle, x, side="left")
    on = (low < len(middle)) & (middle[np.minimum(low, len(middle) - 1)] == x)
    return np.where(on & (low % 2 == 1), low + 1, low)


def pack(nibbles):
    return (nibbles[..., 0::2] | nibbles[..., 1::2] << 4).astype(np.uint8)


def unpack(packed):
    out = np.empty(packed.shape[:-1] + (2 * packed.shape[-1],), np.uint8)
    out[..., 0::2], out[..., 1::2] = packed & 15, packed >> 4
    return out


def to_nvfp4(w, scale_2):
    w = w.astype(np.float32)
    groups = w.reshape(w.shape[0], -1, 16)
    scale = (np.abs(groups).max(-1) / (np.float32(6) * scale_2)).astype(np.float32)
    scale = np.where(scale == 0, np.float32(1), scale).clip(np.float32(2.0 ** -9), np.float32(448))
    code = nearest_even(scale, E4M3[:127])
    quotient = groups / (E4M3[code] * scale_2).astype(np.float32)[..., None]
    nibble = nearest_even(np.abs(quotient), E2M1[:8]) | np.where(quotient < 0, 8, 0)
    return pack(nibble.reshape(w.shape)), code.astype(np.uint8)


def to_mxfp4(w):
    groups = w.astype(np.float64).reshape(w.shape[0], -1, 32)
    amax = np.abs(groups).max(-1)
    x = np.where(amax == 0, -127, np.rint(np.log2(amax / 6 + 1e-30))).clip(-127, 127)
    u = groups / np.exp2(x)[..., None]
    index = np.searchsorted(np.array([.25, .75, 1.25, 1.75, 2.5, 3.5, 5]), np.abs(u), side="left")
    return pack((index | np.signbit(u) * 8).reshape(w.shape)), (x + 127).astype(np.uint8)


# --- experts of a checkpoint of floats, by module ---

EXPERT = re.compile(r"^(?!.*mtp)(.*layers\.(\d+)\.\w+\.experts)\.(?:(\d+)\.(\w+)|(gate_up_proj|down_proj))(?:\.weight)?$")


def float_experts(tensors, layers):
    out, used = {}, set()
    for name, tensor in tensors.items():
        match = EXPERT.match(name)
        if not match or int(match[2]) >= layers:
            continue
        used.add(name)
        values = tensor.floats()
        if match[3]:
            out[f"{match[1]}.{match[3]}.{match[4]}"] = values
        for e in range(len(values) if match[5] else 0):
            short = ".ffn." in name
            if match[5] == "down_proj":
                out[f"{match[1]}.{e}.{'w2' if short else 'down_proj'}"] = values[e]
            else:
                gate, up = np.split(values[e], 2)
                out[f"{match[1]}.{e}.{'w1' if short else 'gate_proj'}"] = gate
                out[f"{match[1]}.{e}.{'w3' if short else 'up_proj'}"] = up
    return out, used


def mate(module):
    stem, last = module.rsplit(".", 1)
    other = {"gate_proj": "up_proj", "up_proj": "gate_proj", "w1": "w3", "w3": "w1"}.get(last)
    return stem + "." + other if other else module


def quantized(source, target, to):
    here, there = read(source), read(target)
    with open(source + "/config.json") as file:
        config = json.load(file)
    experts, used = float_experts(here, config.get("text_config", config)["num_hidden_layers"])
    expected = {name: t for name, t in here.items() if name not in used}
    for module, w in experts.items():
        if to == "nvfp4":
            amax = max(np.abs(w).max(), np.abs(experts[mate(module)]).max())
            scale_2 = np.float32(amax) / np.float32(2688)
            scale_2 = np.float32(1) if scale_2 == 0 else scale_2
            nibbles, scales = to_nvfp4(w, scale_2)
            expected[module + ".weight_scale"] = Tensor("F8_E4M3", scales.shape, scales.tobytes())
            expected[module + ".weight_scale_2"] = Tensor("F32", [], scale_2.tobytes())
            expected[module + ".input_scale"] = Tensor("F32", [], np.float32(1).tobytes())
            expected[module + ".weight"] = Tensor("U8", nibbles.shape, nibbles.tobytes())
        else:
            nibbles, scales = to_mxfp4(w)
            expected[module + ".weight"] = Tensor("I8", nibbles.shape, nibbles.tobytes())
            expected[module + ".scale"] = Tensor("F8_E8M0", scales.shape, scales.tobytes())
    compare(expected, there)
    print(f"{len(experts)} expert weights are as they must be, {len(here) - len(used)} other tensors identical")


def balanced(units):
    """Mode auto: whether zeros of one sign are to alternate. units: values of the projections that are one unit."""
    zeros = np.concatenate([v[v == 0] for v in units])
    negative = int(np.signbit(zeros).sum())
    return min(negative, len(zeros) - negative) < 0.05 * len(zeros)


def costs(source):
    said = json.load(sys.stdin)
    with open(source + "/config.json") as file:
        config = json.load(file)
    experts, _ = float_experts(read(source), config.get("text_config", config)["num_hidden_layers"])
    assert {name + ".weight" for name in experts} == said["tensors"].keys()
    nvfp4 = {}
    for module, w in experts.items():
        scale_2 = np.float32(max(np.abs(w).max(), np.abs(experts[mate(module)]).max())) / np.float32(2688)
        scale_2 = np.float32(1) if scale_2 == 0 else scale_2
        nibbles, scales = to_nvfp4(w, scale_2)
        nvfp4[module] = E2M1[unpack(nibbles)] * E4M3[scales].astype(np.float64).repeat(16, -1) * np.float64(scale_2)
    for module, w in experts.items():
        v = nvfp4[module]
        blocks = v.reshape(len(v), -1, 32)
        amax = np.abs(blocks).max(-1)
        x = np.where(amax == 0, -127, np.rint(np.log2(amax / 6 + 1e-30))).clip(-127, 127)
        scale = np.exp2(x).repeat(32, -1)
        alternate = balanced([v, nvfp4[mate(module)]])
        sign = np.where((v == 0) & alternate, np.arange(v.shape[1]) % 2 == 1, np.signbit(v))
        served = np.where(np.abs(v / scale) > 2.5, 4, 1) * np.where(sign, -1, 1) * scale
        for name, new in (("nvfp4", v), ("codebook", served)):
            old = w.astype(np.float64)
            expected = {"rel": 0, "bias": 0}
            if old.any():
                with np.errstate(all="ignore"):
                    expected = {"rel": np.sqrt(np.sum((new - old) ** 2) / np.sum(old ** 2)), "bias": np.sum(new - old) / np.sum(np.abs(old))}
            got = said["tensors"][module + ".weight"]["against_floats"][name]
            for key, value in expected.items():
                assert np.isclose(got[key], value, rtol=1e-9, atol=1e-12), (module, name, key, got[key], value)
    print(f"{len(experts)} costs are as they must be")


def compare(expected, there):
    assert expected.keys() == there.keys(), sorted(expected.keys() ^ there.keys())[:5]
    for name, tensor in expected.items():
        if tensor != there[name]:
            assert (tensor.dtype, tensor.shape) == (there[name].dtype, there[name].shape), (name, there[name].dtype, there[name].shape)
            a, b = tensor.raw().ravel(), there[name].raw().ravel()
            at = int(np.argmax(a != b))
            raise AssertionError(f"{name}: byte or word {at} is {b[at]:#x}, {a[at]:#x} was expected ({np.count_nonzero(a != b)} differ)")


# --- layouts, each module to float64; a module's parts by the last word, fused ones split ---

def modules_of(tensors):
    out, others = {}, {}
    words = ("weight_packed|weight_scale_2|weight_scale_inv|weight_global_scale|weight_scale|input_scale|input_global_scale|scale|weight")
    for name, tensor in tensors.items():
        match = re.match(rf"^(.*\.experts)\.(gate_up_proj|down_proj|w13|w2)[._]({words}|scale_inv)$|^(.*\.experts)\.(gate_up_proj|down_proj|w13|w2)$", name)
        if match:
            stem, part, word = match[1] or match[4], match[2] or match[5], match[3] or "weight"
            word = "weight_scale_inv" if word == "scale_inv" else word
            halves = {"gate_up_proj": ["gate_proj", "up_proj"], "w13": ["w1", "w3"]}.get(part, [part])
            raw = tensor.raw()
            for e in range(len(raw)):
                for i, half in enumerate(halves):
                    piece = raw[e]
                    if len(halves) == 2 and piece.ndim == 1 and len(piece) == 2:
                        piece = piece[i:i + 1]
                    elif len(halves) == 2 and piece.ndim == 2:
                        piece = np.split(piece, 2)[i]
                    piece = np.ascontiguousarray(piece)
                    out.setdefault(f"{stem}.{e}.{half}", {})[word] = Tensor(tensor.dtype, piece.shape, piece.tobytes())
            continue
        match = re.match(rf"^(.*)\.({words})$", name)
        if match:
            out.setdefault(match[1], {})[match[2]] = tensor
        else:
            others[name] = tensor
    for module in [m for m, parts in out.items() if set(parts) == {"weight"}]:
        others[module + ".weight"] = out.pop(module)["weight"]
    return out, others


def scalar(tensor):
    return np.float32(tensor.floats().ravel()[0])


def values(parts, block):
    """float64 values, and the input scale (None where there is none)."""
    weight = parts.get("weight_packed") or parts["weight"]
    scale = next(parts[w] for w in ("weight_scale", "weight_scale_inv", "scale") if w in parts)
    given = scalar(parts["input_scale"]) if "input_scale" in parts else None
    if "input_global_scale" in parts:
        given = np.float32(1) / scalar(parts["input_global_scale"])
    if weight.dtype in ("U8", "I8"):
        w = E2M1[unpack(weight.raw())]
        if scale.dtype == "F8_E4M3":
            if "weight_scale_2" in parts:
                factor = scalar(parts["weight_scale_2"])
            else:
                factor = np.float32(1) / scalar(parts["weight_global_scale"])
            s = E4M3[scale.raw()].astype(np.float64)
            return w * s.repeat(16, -1) * np.float64(factor), given
        return w * np.exp2(scale.raw().astype(np.float64) - 127).repeat(32, -1), given
    w = E4M3[weight.raw()].astype(np.float64)
    s = np.exp2(scale.raw().astype(np.float64) - 127) if scale.dtype in ("U8", "F8_E8M0") else scale.floats().astype(np.float64)
    s = s.repeat(block[0], 0).repeat(block[1], 1)[:w.shape[0], :w.shape[1]] if s.ndim == 2 else s.ravel()[0]
    return w * s, given


def translated(source, target):
    sides = []
    for directory in source, target:
        modules, others = modules_of(read(directory))
        with open(directory + "/config.json") as file:
            config = json.load(file)
        quant = config.get("quantization_config") or config["text_config"]["quantization_config"]
        block = quant.get("weight_block_size")
        for group in quant.get("config_groups", {}).values():
            block = (group["weights"].get("block_structure") if block is None else block)
        sides.append((modules, others, block or [128, 128]))
    (a, other_a, block_a), (b, other_b, block_b) = sides
    assert a.keys() == b.keys(), sorted(a.keys() ^ b.keys())[:5]
    compare(other_a, other_b)
    for module in a:
        (x, given_x), (y, given_y) = values(a[module], block_a), values(b[module], block_b)
        assert x.shape == y.shape, module
        assert given_x is None or given_x == given_y, (module, given_x, given_y)
        assert np.array_equal(x, y), f"{module}: {np.count_nonzero(x != y)} elements differ"
        assert not set(b[module]) & {"weight_packed", "weight_global_scale", "input_global_scale"}, (module, set(b[module]))
    print(f"{len(a)} modules are equal, {len(other_a)} other tensors identical")


def main(command, *arguments):
    if command == "make" and arguments[0] == "floats":
        make_floats(arguments[1], **dict(a.split("=", 1) for a in arguments[2:]))
    elif command == "make":
        make_quantized(arguments[0], arguments[1], **dict(a.split("=", 1) for a in arguments[2:]))
    else:
        {"quantized": quantized, "costs": costs, "translated": translated}[command](*arguments)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except AssertionError as difference:
        sys.exit(f"differs: {difference}")
