// Flags and output common to quantize, translate and finish.
#pragma once

#include <string>

#include "base/json.h"
#include "common/flag_values.h"
#include "common/output_flags.h"
#include "rewrite/rewrite.h"

namespace planesmith {

struct RewriteFlags {
  RewriteOptions options;
  std::string link = "sym";
  OutputFlags output;
  bool json = false;
};

// --link, -f, --recheck, -n, --json, --no-space-check, --group-shared.
void add_rewrite_flags(CLI::App& app, RewriteFlags& flags);
// The options, with the flags of the output applied to the context.
RewriteOptions options_of(const RewriteFlags& flags, Context& context);

// Suggests to audit the new checkpoint against its source.
void suggest_audit(const std::string& target, const std::string& source);

// What was written, or in a dry run would be, file by file.
std::string text_of(const RewriteResult& result, bool dry_run);
Json json_of(const RewriteResult& result);

}  // namespace planesmith
