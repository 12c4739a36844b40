#include "common/document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <vector>

#include "base/version.h"
#include "common/help.h"
#include "common/program.h"
#include "common/suggest.h"

namespace planesmith {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<const CLI::Option*> flags_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->nonpositional(); });
}

std::vector<const CLI::Option*> arguments_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return !option->nonpositional(); });
}

// "-o", "--out"
std::vector<std::string> spellings(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() != 0;
}

// The placeholder for an option's value in a synopsis.
std::string value_name(const CLI::Option& option) {
  if (const auto words = choices(option); !words.empty() && !accepts_others(option))
    return fmt::format("{}", fmt::join(words, "|"));
  const std::string type = option.get_type_name();
  return type.substr(0, type.find(':'));
}

std::string replaced(std::string text, const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto pair = std::find_if(pairs.begin(), pairs.end(), [&](const auto& p) {
      return text.compare(at, p.first.size(), p.first) == 0;
    });
    if (pair == pairs.end()) {
      out += text[at++];
    } else {
      out += pair->second;
      at += pair->first.size();
    }
  }
  return out;
}

// Escapes text for a man page, so that no line looks like a roff request.
std::string roff(const std::string& text) {
  std::string out = replaced(text, {{"\\", "\\e"}, {"-", "\\-"}, {"\n.", "\n\\&."}, {"\n'", "\n\\&'"}});
  return !out.empty() && (out[0] == '.' || out[0] == '\'') ? "\\&" + out : out;
}

std::string roff_synopsis(const CLI::App& app, const std::string& name) {
  std::string out = fmt::format("\\fB{}\\fR [\\fIoptions\\fR]", roff(name));
  if (!commands_of(app).empty()) out += " \\fIcommand\\fR ...";
  for (const CLI::Option* argument : arguments_of(app)) {
    const std::string many = argument->get_items_expected_max() > 1 ? " ..." : "";
    const std::string shown = fmt::format("\\fI{}\\fR{}", roff(argument->get_name()), many);
    out += argument->get_required() ? " " + shown : " [" + shown + "]";
  }
  return out;
}

std::string roff_options(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* argument : arguments_of(app))
    out +=
        fmt::format(".TP\n\\fI{}\\fR\n{}\n", roff(argument->get_name()), roff(argument->get_description()));
  for (const CLI::Option* flag : flags_of(app)) {
    std::vector<std::string> names;
    for (const std::string& name : spellings(*flag)) names.push_back("\\fB" + roff(name) + "\\fR");
    out += fmt::format(".TP\n{}", fmt::join(names, ", "));
    if (takes_value(*flag)) out += fmt::format(" \\fI{}\\fR", roff(value_name(*flag)));
    out += "\n" + roff(flag->get_description());
    if (!flag->get_default_str().empty()) out += " (default: " + roff(flag->get_default_str()) + ")";
    out += "\n";
  }
  return out;
}

std::string roff_examples(const CLI::App& app) {
  std::vector<std::string> names = {app.get_name()};
  for (const CLI::App* command : commands_of(app))
    names.push_back(app.get_name() + " " + command->get_name());
  std::string out;
  for (const std::string& name : names)
    for (const auto& [line, what] : examples(name))
      out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(std::string(line)), roff(std::string(what)));
  return out.empty() ? "" : ".SH EXAMPLES\n" + out;
}

// A valid name for a shell function.
std::string identifier(const std::string& program) {
  return "_" + replaced(program, {{"-", "_"}});
}

std::string bash_case(const CLI::App& app, const std::string& label) {
  std::vector<std::string> words;
  std::string values;
  for (const CLI::Option* flag : flags_of(app)) {
    const auto names = spellings(*flag);
    words.insert(words.end(), names.begin(), names.end());
    if (const auto accepted = choices(*flag); !accepted.empty()) {
      // A value that may be left out has to be in the flag's own word.
      std::vector<std::string> before;
      for (const std::string& name : names) {
        if (takes_value(*flag)) before.push_back(name);
        before.push_back(name + "=");
      }
      values += fmt::format("        {}) values='{}' ;;\n", fmt::join(before, "|"), fmt::join(accepted, " "));
    }
  }
  std::vector<std::string> commands;
  for (const CLI::App* command : commands_of(app)) commands.push_back(command->get_name());
  return fmt::format(
      "    {})\n      flags='{}' commands='{}'\n      case $previous$equals in\n{}        *) ;;\n      esac "
      ";;\n",
      label, fmt::join(words, " "), fmt::join(commands, " "), values);
}

std::string zsh_quoted(const std::string& text) {
  return replaced(text, {{"'", "'\\''"}});
}

// One line for _arguments for each flag.
std::string zsh_arguments(const CLI::App& app, const std::string& indent) {
  std::string out;
  for (const CLI::Option* flag : flags_of(app)) {
    const auto names = spellings(*flag);
    const std::string about = replaced(flag->get_description(),
                                       {{"[", "("}, {"]", ")"}, {":", "\\:"}, {"\n", " "}, {"'", "'\\''"}});
    std::string value;
    if (const auto accepted = choices(*flag); !accepted.empty() && accepts_others(*flag)) {
      value = fmt::format(":value:{{_alternative \"values\\:value\\:({})\" \"files\\:file\\:_files\"}}",
                          fmt::join(accepted, " "));
    } else if (!accepted.empty()) {
      value = fmt::format(":value:({})", fmt::join(accepted, " "));
    } else if (takes_value(*flag)) {
      value = fmt::format(":{}:_files", zsh_quoted(replaced(value_name(*flag), {{":", "\\:"}})));
    }
    const bool many = flag->get_items_expected_max() > 1;
    if (!value.empty() && !takes_value(*flag)) {
      out += fmt::format("{}'{}=-[{}]:{}' \\\n", indent, names.front(), about, value);
    } else if (names.size() > 1) {
      const std::string once = many ? "*" : fmt::format("({})", fmt::join(names, " "));
      out += fmt::format("{}'{}'{{{}}}'[{}]{}' \\\n", indent, once, fmt::join(names, ","), about, value);
    } else {
      out += fmt::format("{}'{}{}[{}]{}' \\\n", indent, many ? "*" : "", names.front(), about, value);
    }
  }
  return out;
}

}  // namespace

std::string man_page(const CLI::App& app) {
  const std::string& name = app.get_name();
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string out = fmt::format(
      ".TH \"{}\" 1 \"\" \"{}\" \"Planesmith\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n.SH OPTIONS\n{}",
      roff(title), roff(version()), roff(name), roff(app.get_description()), roff_synopsis(app, name),
      roff_options(app));
  if (const auto commands = commands_of(app); !commands.empty()) {
    out += ".SH COMMANDS\n";
    for (const CLI::App* command : commands)
      out += fmt::format(".SS {}\n{}\n.PP\n{}\n{}", roff(name + " " + command->get_name()),
                         roff(command->get_description()),
                         roff_synopsis(*command, name + " " + command->get_name()), roff_options(*command));
  }
  out += roff_examples(app);
  for (const HelpSection& section : common_sections()) {
    out += fmt::format(".SH {}\n", section.title);
    for (const auto& [term, what] : section.items)
      out += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(std::string(term)), roff(std::string(what)));
  }
  out +=
      ".SH SEE ALSO\n.BR repack-experts (1),\n.BR build-planescache (1),\n.BR build-fp4-packs (1),\n"
      ".BR verify-ckpt-id (1),\n.BR pack-chunks (1),\n.BR size-tiers (1)\n";
  return out;
}

std::string bash_completion(const CLI::App& app) {
  const std::string& name = app.get_name();
  std::vector<std::string> names;
  std::string cases;
  for (const CLI::App* command : commands_of(app)) {
    names.push_back(command->get_name());
    cases += bash_case(*command, command->get_name());
  }
  const std::string find = names.empty() ? ""
                                         : fmt::format(
                                               "  for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do\n"
                                               "    case $word in {}) command=$word; break ;; esac\n  done\n",
                                               fmt::join(names, "|"));
  return fmt::format(
      "# Completion of {0} for bash.\n"
      "{1}() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}}\n"
      "  local word command='' flags='' commands='' values='' equals=''\n"
      "  if [ \"$current\" = = ]; then current='' equals==; fi\n"
      "  if [ \"$previous\" = = ]; then previous=${{COMP_WORDS[COMP_CWORD-2]}} equals==; fi\n"
      "{2}  case $command in\n{3}{4}  esac\n"
      "  if [ -n \"$values\" ]; then\n"
      "    local before=''\n"
      "    [[ $current != *,* ]] || before=${{current%,*}},\n"
      "    COMPREPLY=($(compgen -P \"$before\" -W \"$values\" -- \"${{current##*,}}\"))\n"
      "  elif [ \"${{current:0:1}}\" = - ]; then\n"
      "    COMPREPLY=($(compgen -W \"$flags\" -- \"$current\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -W \"$commands\" -- \"$current\"))\n"
      "  fi\n"
      "}}\n"
      "complete -o default -F {1} {0}\n",
      name, identifier(name), find, cases, bash_case(app, "*"));
}

std::string zsh_completion(const CLI::App& app) {
  const std::string& name = app.get_name();
  const auto commands = commands_of(app);
  if (commands.empty())
    return fmt::format("#compdef {}\n_arguments -s \\\n{}  '*:file:_files'\n", name,
                       zsh_arguments(app, "  "));
  std::string list, cases;
  for (const CLI::App* command : commands) {
    list += fmt::format(
        " {}\\:\"{}\"", command->get_name(),
        replaced(command->get_description(), {{"\"", ""}, {"'", "'\\''"}, {":", "\\:"}, {"\n", " "}}));
    cases += fmt::format("      {})\n        _arguments -s \\\n{}          '*:file:_files' ;;\n",
                         command->get_name(), zsh_arguments(*command, "          "));
  }
  return fmt::format(
      "#compdef {}\nlocal state line\n_arguments -C -s \\\n{}  '1:command:(({} ))' \\\n  "
      "'*::argument:->arguments'\n"
      "case $state in\n  arguments)\n    case $line[1] in\n{}    esac ;;\nesac\n",
      name, zsh_arguments(app, "  "), list, cases);
}

void add_generate_flag(CLI::App& app) {
  app.add_option_function<std::string>(
         "--generate",
         [&app](const std::string& kind) {
           print_result(kind == "man"    ? man_page(app)
                        : kind == "bash" ? bash_completion(app)
                                         : zsh_completion(app));
           throw CLI::Success();
         },
         "Print the man page or a shell's completion and do nothing else")
      ->check(CLI::IsMember({"man", "bash", "zsh"}));
}

}  // namespace planesmith
