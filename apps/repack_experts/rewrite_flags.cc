#include "repack_experts/rewrite_flags.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "common/result.h"

namespace planesmith {

void add_rewrite_flags(CLI::App& app, RewriteFlags& flags) {
  RewriteOptions& options = flags.options;
  app.add_option("--link", flags.link,
                 "How unchanged files get to the target: sym (symbolic links), reflink (shared blocks), copy")
      ->type_name("TEXT:{sym,reflink,copy}")
      ->capture_default_str();
  app.add_flag("-f,--force", options.force, "Rewrite everything, whatever the target holds");
  app.add_flag("--recheck", options.recheck, "Compare finished files with the source, not only their sizes");
  app.add_flag("-n,--dry-run", options.dry_run,
               "Check everything and print the plan; read no weights, write nothing");
  add_output_flags(app, flags.output);
  app.add_flag("--json", flags.json, "Print the result as JSON instead of text");
}

RewriteOptions options_of(const RewriteFlags& flags, Context& context) {
  if (flags.output.group_shared) share_with_group(context);
  RewriteOptions options = flags.options;
  options.link = parse_link_mode(flags.link);
  options.check_space = !flags.output.no_space_check;
  return options;
}

void suggest_audit(const std::string& target, const std::string& source) {
  suggest_next(
      fmt::format("verify-ckpt-id audit {} --against {}", shell_quoted(target), shell_quoted(source)));
}

std::string text_of(const RewriteResult& result, bool dry_run) {
  std::string text;
  for (const RewriteResult::File& file : result.files)
    text += fmt::format("{}: {}{}\n", printable(file.name), exact_size(file.bytes),
                        file.was_there ? " (finished before)"
                        : dry_run      ? " to be written"
                                       : "");
  for (const std::string& name : result.texts)
    text += fmt::format("{}: {}\n", printable(name), dry_run ? "to be written" : "written");
  text += fmt::format("{} other files are taken over as they are\n", result.others.size());
  for (const std::string& left : result.left_out) text += "left out: " + printable(left) + "\n";
  text += fmt::format("{} tensors, {}\n", result.tensors, exact_size(result.bytes));
  if (dry_run)
    text +=
        fmt::format("to write: {}; room for {}\nmemory: {} with {} threads\n", exact_size(result.to_write),
                    short_size(result.free), exact_size(result.memory), result.workers);
  return text;
}

Json json_of(const RewriteResult& result) {
  Json json = {{"files", Json::array()},
               {"texts", result.texts},
               {"other_files", result.others.size()},
               {"left_out", Json::array()},
               {"tensors_made", result.made},
               {"tensors", result.tensors},
               {"bytes", result.bytes},
               {"bytes_to_write", result.to_write},
               {"free", result.free},
               {"memory", result.memory},
               {"threads", result.workers}};
  for (const RewriteResult::File& file : result.files)
    json["files"].push_back(
        {{"file", file.name}, {"bytes", file.bytes}, {"finished_before", file.was_there}});
  for (const std::string& left : result.left_out) json["left_out"].push_back(left);
  return json;
}

}  // namespace planesmith
