#include "common/help.h"

#include <fmt/format.h>

namespace planesmith {
namespace {

struct Example {
  std::string_view command, line, what;
};
constexpr Example kExamples[] = {
    {"build-planescache", "build-planescache /models/Flash --out /cache --ckpt-id flash-0731",
     "build the planes cache of one GPU, with a pinned identity"},
    {"build-planescache",
     "build-planescache /models/Flash --out /cache --store /packs --tiers base,fp4 --world 2",
     "build cache and packs of two ranks in one pass, with the content id"},
    {"build-planescache", "build-planescache /models/Flash --out /cache --dry-run",
     "show what would be written and how much memory and space it needs"},
    {"build-fp4-packs", "build-fp4-packs /models/Flash --out /packs --ckpt-id flash-0731",
     "build the packs from a checkpoint"},
    {"build-fp4-packs", "build-fp4-packs --from-planescache /cache --out /packs --tiers delta",
     "build a pack from a planes cache, sharing blocks where the file system can"},
    {"verify-ckpt-id id", "verify-ckpt-id id /models/Flash", "print the content id"},
    {"verify-ckpt-id id", "verify-ckpt-id id /models/Flash --served-path /model --no-content",
     "print the id that the engine computes itself"},
    {"verify-ckpt-id manifest", "verify-ckpt-id manifest /models/Flash --out Flash.json",
     "record all files and their digests"},
    {"verify-ckpt-id verify", "verify-ckpt-id verify /cache /packs",
     "verify everything below these directories that has a manifest"},
    {"verify-ckpt-id verify", "verify-ckpt-id verify /cache --read-data-subset 10%",
     "verify a tenth of the contents, and all names and sizes"},
    {"verify-ckpt-id repair", "verify-ckpt-id repair /cache /packs --checkpoint /models/Flash -n",
     "show what would be repaired, and how"},
    {"verify-ckpt-id check", "verify-ckpt-id check --planescache /cache --store /packs",
     "check whether the engine would boot from these"},
    {"verify-ckpt-id check",
     "verify-ckpt-id check --planescache /cache --checkpoint /models/Flash --sample 20",
     "also convert 20 experts again and compare them"},
    {"verify-ckpt-id list", "verify-ckpt-id list --planescache /cache --store /packs",
     "list identities with size and completeness"},
    {"verify-ckpt-id audit", "verify-ckpt-id audit /models/Flash", "lint a checkpoint"},
    {"verify-ckpt-id prune", "verify-ckpt-id prune --keep flash-0731 --planescache /cache",
     "show what would be removed; --force removes it"},
    {"verify-ckpt-id rekey", "verify-ckpt-id rekey --from old --to new --planescache /cache --store /packs",
     "give the same data another identity"},
    {"pack-chunks pack", "pack-chunks pack /cache --name planescache --out parts --part-size 16GB",
     "pack into parts of at most 16 * 10^9 bytes"},
    {"pack-chunks unpack", "pack-chunks unpack parts --out /", "unpack everything again"},
    {"pack-chunks verify", "pack-chunks verify parts --deep", "verify the parts and each member in them"},
    {"pack-chunks list", "pack-chunks list parts", "list the members and the parts they are in"},
    {"pack-chunks fetch", "pack-chunks fetch hf:OWNER/REPO planescache --out /",
     "download, verify and unpack in one step"},
    {"repack-experts build", "repack-experts build Flash Flash-4 --levels 4 --granularity tensor",
     "reduce each tensor to four values"},
    {"repack-experts gate", "repack-experts gate Flash", "prove that repacking changes nothing else"},
    {"repack-experts analyze", "repack-experts analyze Flash --report fidelity.html",
     "report how well the 2-bit codebook fits the experts"},
    {"repack-experts quantize", "repack-experts quantize Model-BF16 Model-NVFP4 --to nvfp4",
     "convert float experts to a format that the engine serves"},
    {"repack-experts translate", "repack-experts translate Foreign Native --gate",
     "write the same numbers in the engine's layout, and compare them"},
    {"repack-experts finish", "repack-experts finish Quantized --from Source Finished",
     "add what a quantizer left out"},
    {"size-tiers", "size-tiers trace.npy --profile DeepSeek-V4-Flash-0731 --gpu-memory 96G --ram 256G",
     "compute how large the pools should be"},
};

std::string text_of(const HelpSection& section) {
  std::string out = std::string(section.title) + "\n";
  for (const auto& [term, what] : section.items) out += fmt::format("  {:<26} {}\n", term, what);
  return out;
}

void add_sections(CLI::App& app, const std::string& name) {
  std::string text;
  for (const auto& [line, what] : examples(name)) text += fmt::format("  {}\n      {}\n", line, what);
  if (!text.empty()) text = "EXAMPLES\n" + text + "\n";
  for (const HelpSection& section : common_sections()) text += text_of(section) + "\n";
  app.footer(text);
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    add_sections(*command, name + " " + command->get_name());
}

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> examples(std::string_view command) {
  std::vector<std::pair<std::string_view, std::string_view>> out;
  for (const Example& example : kExamples)
    if (example.command == command) out.emplace_back(example.line, example.what);
  return out;
}

const std::vector<HelpSection>& common_sections() {
  static const std::vector<HelpSection> sections = {
      {"EXIT STATUS",
       {{"0", "done"},
        {"1", "failed"},
        {"2", "wrong use"},
        {"3", "a verification found a difference"},
        {"4", "another run is still writing layers that were asked for"},
        {"129, 130, 143", "stopped by SIGHUP, SIGINT, SIGTERM; the same command continues"}}},
      {"ENVIRONMENT",
       {{"XDG_CACHE_HOME",
         "parent of the directory for remembered digests and verifications (default ~/.cache)"},
        {"PLANESMITH_PROFILES", "directory of model profiles, searched first"},
        {"HF_TOKEN, HF_ENDPOINT", "token and address of the Hugging Face hub, for pack-chunks fetch"},
        {"SSL_CERT_FILE, SSL_CERT_DIR", "certificates for checking servers, instead of the distribution's"}}},
      {"FILES",
       {{"~/.cache/planesmith", "remembered digests; may be removed at any time"},
        {"manifest.json", "in each rank's directory of a planes cache: its files and digests"},
        {"*.pack.manifest.json", "the same, beside each pack"},
        {"share/planesmith/profiles", "model profiles"}}}};
  return sections;
}

void add_help_sections(CLI::App& app) {
  add_sections(app, app.get_name());
}

}  // namespace planesmith
