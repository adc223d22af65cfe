#pragma once
// The file through which rank 0 tells the other ranks of its host where it listens.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/launch.hpp"
#include "bootstrap/secret.hpp"
#include "shmem/result.hpp"

namespace shmoe::bootstrap {

/// A process, told apart from a later one that got the same pid.
struct Owner {
  std::int64_t pid = 0;
  // Clock ticks since boot, field 22 of /proc/<pid>/stat, as seen in the first time namespace.
  std::uint64_t start_time = 0;

  bool operator==(const Owner&) const = default;
};

/// Errors:  not_found, io: /proc is not mounted, or does not tell when this process started
Result<Owner> this_process();
bool is_alive(const Owner& owner);

/// A folder of this user alone: $XDG_RUNTIME_DIR where it is owned by the user with mode 0700, else
/// <temporary>/shmoe-<uid>, which is made where it is missing.
///
/// Errors:  permission: the folder is there and somebody else may write to it; not_found: it cannot be made
Result<std::filesystem::path> runtime_folder(const Environment& environment, const std::filesystem::path& temporary);

std::filesystem::path meeting_path(const std::filesystem::path& folder, std::string_view job_id);

/// What the file says.
struct Meeting {
  std::uint16_t port = 0;  // on 127.0.0.1
  Secret secret;
  Owner owner;
};

std::string to_string(const Meeting& meeting);
/// Nothing where the text is not what to_string writes.
std::optional<Meeting> parse_meeting(const std::string& text);

/// Errors:  not_found: no file, or one whose owner is gone; permission: not a file of this user alone; io: unreadable
Result<Meeting> read_meeting(const std::filesystem::path& path);

struct Meetings {
  std::vector<std::string> stale;
  std::vector<std::string> live;  // or just being written
  std::vector<std::string> odd;   // what no rank 0 of this user writes
};

/// Removes what rank 0s that are gone have left in the folder, half-written files included, unless `dry_run`; returns
/// the names.
Meetings remove_stale_meetings(const std::filesystem::path& folder, bool dry_run);

/// The published file; removed by remove() or with this object.
class MeetingFile {
 public:
  /// Appears whole or not at all. A file whose owner is gone is replaced.
  ///
  /// Errors:  already_exists: a living process published it; permission; system
  static Result<MeetingFile> publish(std::filesystem::path path, const Meeting& meeting);

  MeetingFile() = default;
  MeetingFile(MeetingFile&& other) noexcept;
  MeetingFile& operator=(MeetingFile&& other) noexcept;
  ~MeetingFile();

  void remove();

 private:
  explicit MeetingFile(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace shmoe::bootstrap
