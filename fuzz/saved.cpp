// Saved jobs, as `shmoe inspect FILE` reads them: a job of two ranks as it would be saved, which the input changes. An input
// that begins with "shmoe" brings the text of the file, up to a zero byte; then come twelve bytes a change: where, and the
// word there, little-endian.

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz/target.hpp"
#include "runtime/control_header.hpp"
#include "runtime/diagnosis/assessment.hpp"
#include "runtime/diagnosis/job_view.hpp"

namespace shmoe::fuzz {
namespace {

using runtime::Config;
using runtime::JobShape;
using runtime::JobView;

constexpr std::uint64_t kPage = 4096;
constexpr std::int32_t kRanks = 2;

JobShape small_shape() {
  Config config = Config::defaults();
  config.communicators = 2;
  config.heap = Bytes{64U << 10U};
  config.ipc_data = Bytes{0};
  return {config, kRanks};
}

/// The file, and where its parts lie.
class Saved {
 public:
  Saved() : shape_(small_shape()), file_(memfd_create("saved job", MFD_CLOEXEC)) {
    const std::uint64_t control = round_up(shape_.control_memory().value(), kPage);
    const std::uint64_t rank_bytes = control + shape_.map.meta_window().value();
    image_.resize(kPage + kRanks * rank_bytes);
    std::string text = fmt::format("shmoe saved job {}\nshmoe_job 2 5 7\n", shmem::kLayoutVersion);
    for (std::int32_t rank = 0; rank < kRanks; ++rank) {
      const std::uint64_t at = kPage + static_cast<std::uint64_t>(rank) * rank_bytes;
      text += fmt::format("{} {} 83 {} 1 0 {}\n", rank, 40 + rank, at, at + control);
      auto header = std::make_unique<shmem::ControlHeader>();
      write_header(*header, shape_, Rank{rank}, 0x1234);
      std::memcpy(image_.data() + at, static_cast<void*>(header.get()), sizeof *header);
      std::byte* const block = image_.data() + at + shmem::kControlHeaderBytes;
      for (Rank member{0}; member.value() < kRanks; ++member)
        shape_.control.member(block, member).store(member.value());
      shape_.control.membership(block).size.store(kRanks);
      shape_.control.membership(block).made.store(1);
    }
    std::memcpy(image_.data(), text.data(), text.size());
    write(image_.data(), image_.size(), 0);
  }

  [[nodiscard]] std::string path() const { return fmt::format("/proc/self/fd/{}", file_); }

  void change(std::uint64_t at, std::uint64_t word) {
    at %= image_.size() - sizeof word;
    write(&word, sizeof word, at);
    changed_.push_back(at / kPage * kPage);
    changed_.push_back((at + sizeof word - 1) / kPage * kPage);
  }
  void change_text(std::string_view text) {
    if (text.empty()) return;
    std::array<char, kPage> page{};
    text.copy(page.data(), page.size());
    write(page.data(), page.size(), 0);
    changed_.push_back(0);
  }
  void restore() {
    for (const std::uint64_t at : changed_) write(image_.data() + at, std::min(kPage, image_.size() - at), at);
    changed_.clear();
  }

 private:
  void write(const void* bytes, std::size_t size, std::uint64_t at) const {
    holds(pwrite(file_, bytes, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size), "the file is written", "");
  }

  JobShape shape_;
  int file_;
  std::vector<std::byte> image_;
  std::vector<std::uint64_t> changed_;
};

void look_at(const std::string& path) {
  const auto job = JobView::open_saved(path);
  if (!job) return is_told(job.error(), "");
  const auto look = runtime::JobLook::take(**job);
  if (!look) return is_told(look.error(), "");
  for (std::size_t i = 0; i < (*look)->views().size(); ++i) {
    const runtime::CommunicatorLook at(**look, i);
    holds(!at.assess().text.empty(), "a communicator is assessed", "");
  }
}

}  // namespace
}  // namespace shmoe::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace shmoe::fuzz;
  static Saved saved;
  std::string_view rest = text_of(data, size);
  if (rest.starts_with("shmoe")) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    saved.change_text(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  for (std::uint32_t at = 0; rest.size() >= 12; rest.remove_prefix(12)) {
    std::uint64_t word = 0;
    std::memcpy(&at, rest.data(), 4);
    std::memcpy(&word, rest.data() + 4, 8);
    saved.change(at, word);
  }
  look_at(saved.path());
  saved.restore();
  return 0;
}
