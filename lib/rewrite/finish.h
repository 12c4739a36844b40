// repack-experts finish: completes what quantizers leave undone.
#pragma once

#include "rewrite/rewrite.h"

namespace planesmith {

struct FinishResult {
  RewriteResult files;
  std::vector<std::string> steps;  // done, or in a dry run to be done; empty: nothing was missing
};

// Copies from `source`, the checkpoint that options.source was quantized from, what is missing: drafter
// tensors (into a shard of their own), processor and tokenizer files, the chat template. Also lists the
// drafters among the excluded modules, clears truncation and padding of tokenizer.json, sets
// num_nextn_predict_layers and rewrites the index. Errors: those of Checkpoint::open() and rewrite().
FinishResult finish(const Context& context, const std::string& source, const RewriteOptions& options);

}  // namespace planesmith
