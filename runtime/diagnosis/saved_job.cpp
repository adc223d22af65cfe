// Jobs that were saved. A saved job is one file:
//
//   text     "shmoe saved job 5", what RunningJob holds, and of each rank where its parts lie; whole pages
//   pages    of each rank its `.ctl`, and of each communicator what lies before the ipc window

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iomanip>

#include <fcntl.h>
#include <unistd.h>

#include "bootstrap/text.hpp"
#include "runtime/diagnosis/job_view.hpp"
#include "runtime/diagnosis/rank_files.hpp"

namespace shmoe::runtime {
namespace {

constexpr std::string_view kSaved = "shmoe saved job";
constexpr std::uint64_t kPage = 4096;
// Of what is read: whatever lies there may be called a saved job.
constexpr std::size_t kLongestLine = 64;
constexpr int kLongestName = 256;
constexpr std::size_t kMostCommunicators = 64;

/// Of a file that is written part by part, each on a page of its own.
class PagedFile {
 public:
  explicit PagedFile(const std::string& path)
      : file_(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {}
  PagedFile(const PagedFile&) = delete;
  PagedFile& operator=(const PagedFile&) = delete;
  ~PagedFile() {
    if (file_ >= 0) close(file_);
  }
  [[nodiscard]] bool is_open() const { return file_ >= 0; }

  /// Pages of zeros take no room.
  bool write(std::uint64_t at, const char* bytes, std::uint64_t size) {
    static constexpr std::array<char, kPage> kZeros{};
    for (std::uint64_t done = 0; done < size; done += kPage) {
      const std::uint64_t part = std::min(kPage, size - done);
      if (std::memcmp(bytes + done, kZeros.data(), part) == 0) continue;
      if (pwrite(file_, bytes + done, part, static_cast<off_t>(at + done)) != static_cast<ssize_t>(part)) return false;
    }
    end_ = std::max(end_, at + round_up(size, kPage));
    return true;
  }
  bool finish() const { return ftruncate(file_, static_cast<off_t>(end_)) == 0; }

 private:
  int file_;
  std::uint64_t end_ = 0;
};

/// Read, so that pages that are not there do not come to be.
std::vector<char> bytes_in(int file, std::uint64_t at, std::uint64_t size) {
  std::vector<char> bytes(size);
  std::uint64_t done = 0;
  while (done < size) {
    const ssize_t some = pread(file, bytes.data() + done, size - done, static_cast<off_t>(at + done));
    if (some <= 0) break;  // the rest stays zero
    done += static_cast<std::uint64_t>(some);
  }
  return bytes;
}

Error bad_file(const std::string& path, std::string_view what) {
  return Error{.code = Errc::io,
               .context = fmt::format("{} {}; `shmoe inspect JOB --save FILE` makes one", path, what)};
}

/// Of this version of us.
Result<void> check_first_line(std::istream& in, const std::string& path) {
  std::array<char, kLongestLine> first{};
  in.getline(first.data(), first.size());
  const std::string_view line = first.data();
  if (!line.starts_with(kSaved)) return bad_file(path, "is no saved job");
  if (line == fmt::format("{} {}", kSaved, shmem::kLayoutVersion)) return {};
  return Error{.code = Errc::version,
               .context = fmt::format("{} says {}, expected version {}: read it with the build that saved it", path,
                                      bootstrap::quoted(line), shmem::kLayoutVersion)};
}

/// The line of one rank behind its number.
Result<std::unique_ptr<RankFiles>> read_rank(std::istream& in, Rank rank, const std::string& path) {
  RankProcess process;
  process.rank = rank;
  in >> process.pid;
  auto files = std::make_unique<RankFiles>(process);
  int letter = 0;
  std::size_t count = 0;
  in >> letter >> files->control_at >> count;
  files->saved_state.letter = static_cast<char>(letter);
  if (count > kMostCommunicators) return bad_file(path, "breaks off");
  for (std::size_t i = 0; in && i < count; ++i) {
    std::int32_t id = 0;
    std::uint64_t at = 0;
    in >> id >> at;
    files->memory_at[CommunicatorId{id}] = at;
  }
  files->control_file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  files->memory_file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (!in || files->control_file < 0 || files->memory_file < 0) return bad_file(path, "breaks off");
  return files;
}

/// Where the last page of a rank ends.
std::uint64_t end_of(const RankFiles& files, const JobShape& shape) {
  std::uint64_t end = files.control_at + shape.control_memory().value();
  for (const auto& [id, at] : files.memory_at) end = std::max(end, at + shape.map.meta_window().value());
  return end;
}

}  // namespace

Result<void> JobView::save(const std::string& path) {
  auto communicators = this->communicators();
  if (!communicators) return std::move(communicators).error();
  PagedFile file(path);
  std::string text = fmt::format("{} {}\n{} {} {} {}\n", kSaved, shmem::kLayoutVersion, job_.name, job_.ranks,
                                 job_.begun_ns, now_ns());
  const std::uint64_t control = shape_.control_memory().value();
  const std::uint64_t window = shape_.map.meta_window().value();
  std::uint64_t next = round_up(64 * (2 + ranks_.size() * (1 + communicators->size())), kPage);
  bool written = file.is_open();
  for (const auto& files : ranks_) {
    if (!files || !written) continue;
    text += fmt::format("{} {} {} {} {}", files->process.rank, files->process.pid,
                        static_cast<int>(state_of(files->process.rank).letter), next, communicators->size());
    written = file.write(next, bytes_in(files->control_file, files->control_at, control).data(), control);
    next += round_up(control, kPage);
    for (const CommunicatorView& view : *communicators) {
      text += fmt::format(" {} {}", view.id(), next);
      const std::uint64_t at = shape_.map.size.value() * view.id().index();
      written = written && file.write(next, bytes_in(files->memory_file, at, window).data(), window);
      next += window;
    }
    text += "\n";
  }
  written = written && file.write(0, text.data(), text.size()) && file.finish();
  if (written) return {};
  return Error{.code = Errc::system,
               .context = fmt::format("cannot write {}: give --save a file that can be written", path),
               .where = {},
               .sys = errno};
}

Result<std::unique_ptr<JobView>> JobView::open_saved(const std::string& path) {
  std::ifstream in(path);
  if (!in)
    return Error{.code = Errc::not_found,
                 .context = fmt::format("{} cannot be read: give the file that --save wrote", path),
                 .where = {},
                 .sys = errno};
  if (Result<void> right = check_first_line(in, path); !right) return std::move(right).error();
  RunningJob job;
  std::int64_t saved = 0;
  in >> std::setw(kLongestName) >> job.name >> job.ranks >> job.begun_ns >> saved;
  job.name = bootstrap::printable(job.name);
  std::vector<std::unique_ptr<RankFiles>> ranks;
  for (std::int32_t rank = 0; in >> rank;) {
    Result<std::unique_ptr<RankFiles>> files = read_rank(in, Rank{rank}, path);
    if (!files) return std::move(files).error();
    job.processes.push_back((*files)->process);
    ranks.push_back(*std::move(files));
  }
  if (ranks.empty()) return bad_file(path, "holds no rank");
  Result<std::unique_ptr<JobView>> view = make(job, *ranks.front(), Use::look);
  if (!view) return view;
  const std::uint64_t size = std::filesystem::file_size(path);
  for (auto& files : ranks) {
    if (end_of(*files, (*view)->shape_) > size) return bad_file(path, "breaks off");
    if (Result<void> added = (*view)->add(std::move(files)); !added) return std::move(added).error();
  }
  (*view)->saved_ns_ = saved;
  return view;
}

}  // namespace shmoe::runtime
