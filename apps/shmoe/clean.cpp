// shmoe clean: removes what dead jobs left in shared memory.

#include <memory>

#include "apps/shmoe/command.hpp"
#include "bootstrap/rendezvous_file.hpp"
#include "bootstrap/text.hpp"
#include "shmem/segment.hpp"

namespace shmoe::apps {
namespace {

constexpr const char* kDescription =
    "Removes what dead jobs of this user have left.\n\n"
    "That is shared memory, and the files in the runtime folder through which ranks meet. What a living job uses "
    "stays,\n"
    "and for a minute what may just be being created.\n\n"
    "  shmoe clean --dry-run\n\n"
    "A job leaves something behind only if it is killed while its ranks are still finding each other.";

int clean(bool dry_run) {
  auto report = shmem::clean_stale(dry_run);
  if (!report) return failed("shmoe clean", report.error());
  if (const auto folder = bootstrap::runtime_folder(bootstrap::process_environment(), "/tmp")) {
    const auto meetings = bootstrap::remove_stale_meetings(*folder, dry_run);
    for (const std::string& name : meetings.stale) report->removed.push_back(*folder / name);
    for (const std::string& name : meetings.live) report->live.push_back(*folder / name);
    for (const std::string& name : meetings.odd) report->odd.push_back(*folder / name);
  }
  using bootstrap::printable;  // whatever stands in /dev/shm may be called anything
  for (const std::string& name : report->removed)
    fmt::print("{} {}\n", dry_run ? "would remove" : "removed", printable(name));
  for (const std::string& name : report->live) fmt::print("kept {}: in use, or just being created\n", printable(name));
  if (!report->foreign.empty())
    fmt::print("skipped {} of other users: whoever owns it runs `shmoe clean`\n", report->foreign.size());
  for (const std::string& name : report->odd) fmt::print("skipped {}: nothing that shmoe makes\n", printable(name));
  fmt::print("{} {}, {} in use, {} of other users, {} not made by shmoe\n", report->removed.size(),
             dry_run ? "stale" : "removed", report->live.size(), report->foreign.size(), report->odd.size());
  return 0;
}

}  // namespace

void add_clean(CLI::App& app, Invocation& invocation) {
  auto dry_run = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("clean", kDescription);
  command->add_flag("--dry-run", *dry_run, "only say what would be removed");
  command->callback([dry_run, &invocation] { invocation.exit_code = clean(*dry_run); });
}

}  // namespace shmoe::apps
