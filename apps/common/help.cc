#include "common/help.h"

#include <fmt/format.h>

namespace planesmith {
namespace {

struct Example {
  std::string_view command, line, what;
};
constexpr Example kExamples[] = {
    {"build-planescache", "build-planescache /models/Flash --out /cache --ckpt-id flash-0731",
     "the planes cache of one GPU, under a pin"},
    {"build-planescache",
     "build-planescache /models/Flash --out /cache --store /packs --tiers base,fp4 --world 2",
     "cache and packs of two ranks in one pass, under the content id"},
    {"build-planescache", "build-planescache /models/Flash --out /cache --dry-run",
     "what would be written, and how much memory and space that takes"},
    {"build-fp4-packs", "build-fp4-packs /models/Flash --out /packs --ckpt-id flash-0731",
     "all packs from the checkpoint"},
    {"build-fp4-packs", "build-fp4-packs --from-planescache /cache --out /packs --tiers delta",
     "a pack from a planes cache, sharing blocks where the file system can"},
    {"verify-ckpt-id id", "verify-ckpt-id id /models/Flash", "the content id"},
    {"verify-ckpt-id id", "verify-ckpt-id id /models/Flash --served-path /model --no-content",
     "the id that the engine computes itself"},
    {"verify-ckpt-id manifest", "verify-ckpt-id manifest /models/Flash --out Flash.json",
     "record what is there"},
    {"verify-ckpt-id verify", "verify-ckpt-id verify /cache /packs", "everything below that has a manifest"},
    {"verify-ckpt-id verify", "verify-ckpt-id verify /cache --read-data-subset 10%",
     "a tenth of the contents, all names and sizes"},
    {"verify-ckpt-id repair", "verify-ckpt-id repair /cache /packs --checkpoint /models/Flash -n",
     "what would be repaired, and how"},
    {"verify-ckpt-id check", "verify-ckpt-id check --planescache /cache --store /packs",
     "would the engine boot from these?"},
    {"verify-ckpt-id check",
     "verify-ckpt-id check --planescache /cache --checkpoint /models/Flash --sample 20",
     "the same, and 20 experts converted again and compared"},
    {"verify-ckpt-id list", "verify-ckpt-id list --planescache /cache --store /packs",
     "identities, sizes, completeness"},
    {"verify-ckpt-id audit", "verify-ckpt-id audit /models/Flash", "lint a checkpoint"},
    {"verify-ckpt-id prune", "verify-ckpt-id prune --keep flash-0731 --planescache /cache",
     "what would be removed; --force removes it"},
    {"verify-ckpt-id rekey", "verify-ckpt-id rekey --from old --to new --planescache /cache --store /packs",
     "another identity for the same data"},
    {"pack-chunks pack", "pack-chunks pack /cache --name planescache --out parts --part-size 16GB",
     "parts of at most 16 * 10^9 bytes"},
    {"pack-chunks unpack", "pack-chunks unpack parts --out /", "everything back"},
    {"pack-chunks verify", "pack-chunks verify parts --deep", "parts and each member in them"},
    {"pack-chunks list", "pack-chunks list parts", "the members and where they lie"},
    {"pack-chunks fetch", "pack-chunks fetch hf:OWNER/REPO planescache --out /",
     "download, verify and unpack at once"},
    {"repack-experts build", "repack-experts build Flash Flash-4 --levels 4 --granularity tensor",
     "four values for each tensor"},
    {"repack-experts gate", "repack-experts gate Flash", "the proof that nothing else changes"},
    {"repack-experts analyze", "repack-experts analyze Flash --report fidelity.html",
     "how well the experts bear the 2-bit codebook"},
    {"repack-experts quantize", "repack-experts quantize Model-BF16 Model-NVFP4 --to nvfp4",
     "expert weights in a format that the engine serves"},
    {"repack-experts translate", "repack-experts translate Foreign Native --gate",
     "the same bytes under the engine's names, with the proof"},
    {"repack-experts finish", "repack-experts finish Quantized --from Source Finished",
     "a quantizer's output with all that it left out"},
    {"size-tiers", "size-tiers trace.npy --profile DeepSeek-V4-Flash-0731 --gpu-memory 96G --ram 256G",
     "how large the pools should be"},
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
        {"129, 130, 143", "stopped by SIGHUP, SIGINT, SIGTERM; the same command goes on from there"}}},
      {"ENVIRONMENT",
       {{"XDG_CACHE_HOME", "where digests and the state of verifications are remembered (~/.cache)"},
        {"PLANESMITH_PROFILES", "directory of model profiles, looked at first"},
        {"HF_TOKEN, HF_ENDPOINT", "of the Hugging Face hub, where something is fetched from it"},
        {"SSL_CERT_FILE, SSL_CERT_DIR", "certificates to check servers by, instead of the distribution's"}}},
      {"FILES",
       {{"~/.cache/planesmith", "remembered digests; may be removed at any time"},
        {"manifest.json", "in each rank's directory of a planes cache: what is there, with digests"},
        {"*.pack.manifest.json", "the same beside each pack"},
        {"share/planesmith/profiles", "model profiles"}}}};
  return sections;
}

void add_help_sections(CLI::App& app) {
  add_sections(app, app.get_name());
}

}  // namespace planesmith
