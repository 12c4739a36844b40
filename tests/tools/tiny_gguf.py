"""tiny_gguf.py FILE: a language model of two layers with random weights and a token for each byte, as llama.cpp reads it. It
says nothing sensible and is a real model to a real server. Needs gguf and numpy."""
import sys

import gguf
import numpy

WIDTH, LAYERS, HEADS, INNER, CONTEXT = 64, 2, 4, 128, 8192
TOKENS = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % byte for byte in range(256)] + ["\u2581"]
random = numpy.random.default_rng(5)
writer = gguf.GGUFWriter(sys.argv[1], "llama")
writer.add_name("tiny")
writer.add_context_length(CONTEXT)
writer.add_embedding_length(WIDTH)
writer.add_block_count(LAYERS)
writer.add_feed_forward_length(INNER)
writer.add_head_count(HEADS)
writer.add_head_count_kv(HEADS)
writer.add_rope_dimension_count(WIDTH // HEADS)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_vocab_size(len(TOKENS))
writer.add_tokenizer_model("llama")
writer.add_token_list(TOKENS)
writer.add_token_scores([-1000.0] * len(TOKENS))
kinds = gguf.TokenType
writer.add_token_types([kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL] + [kinds.BYTE] * 256 + [kinds.NORMAL])
writer.add_bos_token_id(1)
writer.add_eos_token_id(2)
writer.add_unk_token_id(0)


def tensor(name, *shape):
    writer.add_tensor(name, random.normal(0, 0.3, shape).astype(numpy.float32))


tensor("token_embd.weight", len(TOKENS), WIDTH)
tensor("output.weight", len(TOKENS), WIDTH)
writer.add_tensor("output_norm.weight", numpy.ones(WIDTH, numpy.float32))
for layer in range(LAYERS):
    for norm in ("attn_norm", "ffn_norm"):
        writer.add_tensor("blk.%d.%s.weight" % (layer, norm), numpy.ones(WIDTH, numpy.float32))
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        tensor("blk.%d.%s.weight" % (layer, name), WIDTH, WIDTH)
    for name in ("ffn_gate", "ffn_up"):
        tensor("blk.%d.%s.weight" % (layer, name), INNER, WIDTH)
    tensor("blk.%d.ffn_down.weight" % layer, WIDTH, INNER)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
