// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

#include "client/cli/command_line.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace spin::cli {
namespace {

// The innermost command that was named.
const CLI::App* Named(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

std::string PathOf(const CLI::App* app) {
  const CLI::App* parent = app->get_parent();
  return parent == nullptr ? app->get_name() : absl::StrCat(PathOf(parent), " ", app->get_name());
}

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

std::vector<std::string> KnownWords(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_lnames().empty()) words.push_back(absl::StrCat("--", option->get_lnames()[0]));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    words.push_back(command->get_name());
  }
  return words;
}

// "; did you mean --sparsity?", or nothing if nothing is near.
std::string Suggestion(const CLI::App& app, const std::string& word) {
  std::string best;
  size_t least = std::min<size_t>(2, word.size() / 3) + 1;  // more edits are no slip
  for (const std::string& known : KnownWords(app)) {
    const size_t distance = EditDistance(word, known);
    if (distance < least) {
      least = distance;
      best = known;
    }
  }
  return best.empty() ? "" : absl::StrCat("; did you mean ", best, "?");
}

std::string UnknownArgument(const CLI::App& app, const std::string& argument) {
  const std::string word = argument.substr(0, argument.find('='));
  const bool flag = absl::StartsWith(word, "-");
  return absl::StrCat(flag ? "unknown flag " : "unexpected argument ", word, Suggestion(app, word),
                      " (see '", PathOf(&app), " --help')");
}

std::string FirstLine(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string SentenceFor(const CLI::ParseError& error, const CLI::App& root, const CLI::App& named) {
  const auto is = [&](const char* kind) { return error.get_name() == kind; };
  const std::vector<std::string> rest = root.remaining(/*recurse=*/true);
  std::string message = FirstLine(error.what());
  const bool lacks_command = is("RequiredError") && absl::StrContains(message, "subcommand");
  const bool surplus = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if ((surplus || lacks_command) && !rest.empty()) {
    return UnknownArgument(named, rest.front());
  }
  if (lacks_command) return absl::StrCat("say which command (see '", PathOf(&named), " --help')");
  if (is("ArgumentMismatch")) {
    // "--topk: At Most 1 required but received 2", "--topk: 1 required K missing"
    const bool repeated = absl::StrContains(message, "received");
    return absl::StrCat(message.substr(0, message.find(':')),
                        repeated ? ": given more than once" : ": the value is missing");
  }
  return message;
}

}  // namespace

ParsedLine ParseCommandLine(CLI::App* app, int argc, const char* const* argv) {
  ParsedLine line;
  try {
    app->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.output = app->help();  // of the command that was named
  } catch (const CLI::CallForVersion& version) {
    line.output = absl::StrCat(version.what(), "\n");
  } catch (const CLI::ParseError& error) {
    line.status = absl::InvalidArgumentError(SentenceFor(error, *app, *Named(app)));
  }
  line.command = PathOf(Named(app));
  return line;
}

}  // namespace spin::cli
