// repack-experts finish: the steps that quantizers leave open.
#pragma once

#include "rewrite/rewrite.h"

namespace planesmith {

struct FinishResult {
  RewriteResult files;
  std::vector<std::string> steps;  // what was done, or is to be done; empty: nothing was left open
};

// Takes over from `source`, the checkpoint that options.source was quantized from, what is missing: drafter
// tensors (a shard of their own), processor and tokenizer files, the chat template. Lists the drafters among
// the modules that are not quantized, clears truncation and padding of tokenizer.json, sets
// num_nextn_predict_layers, and writes the index anew. Errors: those of Checkpoint::open() and rewrite().
FinishResult finish(const Context& context, const std::string& source, const RewriteOptions& options);

}  // namespace planesmith
