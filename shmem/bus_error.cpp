#include "shmem/bus_error.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csetjmp>
#include <csignal>
#include <string_view>
#include <thread>
#include <utility>

#include <sys/statfs.h>
#include <unistd.h>

#include "shmem/function_ref.hpp"
#include "shmem/layout.hpp"

namespace shmoe::shmem {

namespace detail {
struct Watched {
  pid_t process;
  WatchedMemory memory;
};
}  // namespace detail

namespace {

using detail::Watched;

/// A process has one handler of SIGBUS, so there is one of these.
struct BusErrorHandler {
  std::array<std::atomic<const Watched*>, BusErrorWatch::kMostWatched> table{};
  std::atomic<int> readers{0};
  std::atomic<pid_t> ending{0};  // the thread that ends the process
  sigjmp_buf unreachable{};      // of that thread
  struct sigaction former {};
};
constinit BusErrorHandler bus_errors;

/// Whether an access reaches memory; where it raises SIGBUS itself, it is left out.
[[gnu::noinline]] bool reaches(FunctionRef<void()> access) {
  if (sigsetjmp(bus_errors.unreachable, 1) != 0) return false;
  access();
  return true;
}

/// Text without an allocation; what does not fit is left out.
class FixedText {
 public:
  FixedText& operator<<(std::string_view text) {
    const std::size_t part = std::min(text.size(), text_.size() - size_);
    std::copy_n(text.data(), part, text_.data() + size_);
    size_ += part;
    return *this;
  }
  FixedText& operator<<(std::int64_t number) { return add(number, 10); }
  FixedText& operator<<(Offset offset) { return (*this << "0x").add(offset.value(), 16); }
  [[nodiscard]] std::string_view view() const { return {text_.data(), size_}; }

 private:
  template <class Number>
  FixedText& add(Number number, int base) {
    const auto [end, error] = std::to_chars(text_.data() + size_, text_.data() + text_.size(), number, base);
    if (error == std::errc{}) size_ = static_cast<std::size_t>(end - text_.data());
    return *this;
  }

  std::array<char, 512> text_{};
  std::size_t size_ = 0;
};

struct Hit {
  const WatchedMemory* memory;
  const WatchedMemory::Place* place;
  Offset at;  // in the object
};

template <class Visit>
void for_each_watched(Visit visit) {
  const pid_t process = getpid();
  for (const std::atomic<const Watched*>& entry : bus_errors.table) {
    const Watched* watched = entry.load();
    if (watched != nullptr && watched->process == process) visit(watched->memory);
  }
}

std::optional<Hit> find(const void* address) {
  std::optional<Hit> hit;
  const auto* byte = static_cast<const std::byte*>(address);
  for_each_watched([&](const WatchedMemory& memory) {
    for (const WatchedMemory::Place& place : memory.places) {
      if (byte < place.at || byte >= place.at + place.size.value()) continue;
      const Bytes inside{static_cast<std::uint64_t>(byte - place.at)};
      hit = {.memory = &memory, .place = &place, .at = place.from + inside};
    }
  });
  return hit;
}

std::string_view why(int code) {
  if (code == BUS_MCEERR_AR || code == BUS_MCEERR_AO)
    return "the machine reports that this memory is broken: look at its log (dmesg)";
  struct statfs fs {};
  const bool known = statfs("/dev/shm", &fs) == 0 && fs.f_blocks != 0;  // no blocks: no limit
  if (known && fs.f_bavail * static_cast<std::uint64_t>(fs.f_bsize) < kPageGranule) {
    return "/dev/shm is full: in a container start it with a larger --shm-size, elsewhere remount it with a larger "
           "size "
           "or remove other files there";
  }
  return "somebody has shrunk the object: start the job again, and let nothing else write to shmoe.* in /dev/shm";
}

FixedText text_of(const Hit& hit, int code) {
  FixedText text;
  return text << "bus error at byte " << hit.at << " of the shared segment (" << hit.place->object << ") of rank "
              << hit.place->owner.value() << ": " << why(code);
}

/// Of the ranks that touch the memory one tells: the first that claims it where the first rank keeps its last words whose
/// memory is left.
bool tells(const WatchedMemory& memory) {
  if (!memory.self) return true;
  for (LastWords* words : memory.last_words) {
    bool mine = false;
    if (reaches([&] { mine = words->claim(*memory.self); })) return mine;
  }
  return true;
}

void write_line(const WatchedMemory& memory, std::string_view text) {
  FixedText line;
  line << "shmoe: ";
  if (memory.self) line << "rank " << memory.self->value() << ": ";
  line << text << "\n";
  std::string_view rest = line.view();
  while (!rest.empty()) {
    const ssize_t put = write(STDERR_FILENO, rest.data(), rest.size());
    if (put < 0 && errno != EINTR) return;
    if (put > 0) rest.remove_prefix(static_cast<std::size_t>(put));
  }
}

void give_up(const WatchedMemory::GiveUp& give_up, std::string_view text) {
  text = text.substr(0, kErrorTextBytes - 1);
  (void)reaches([&] { *std::copy(text.begin(), text.end(), reinterpret_cast<char*>(give_up.text)) = '\0'; });
  for (std::byte* word : give_up.words) {
    (void)reaches([&] { std::atomic_ref(*reinterpret_cast<std::uint64_t*>(word)).store(give_up.word); });
  }
}

/// In a handler it is blocked, and would then kill at once.
void let_bus_errors_in() {
  sigset_t bus_error;
  sigemptyset(&bus_error);
  sigaddset(&bus_error, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &bus_error, nullptr);
}

[[noreturn]] void end_process(const Hit& hit, int code) {
  let_bus_errors_in();  // from what is gone as well, see reaches
  const FixedText text = text_of(hit, code);
  if (tells(*hit.memory)) write_line(*hit.memory, text.view());
  for_each_watched([&](const WatchedMemory& memory) {
    if (memory.give_up) give_up(*memory.give_up, text.view());
  });
  _exit(kExitMemoryLost);
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& former = bus_errors.former;
  if ((former.sa_flags & SA_SIGINFO) != 0) return former.sa_sigaction(signal, info, context);
  const bool was_sent = info->si_code <= 0;
  if (former.sa_handler == SIG_IGN && was_sent) return;
  if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) return former.sa_handler(signal);
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  sigaction(signal, &usual, nullptr);
  if (was_sent) raise(signal);  // else the access is repeated, and ends the process
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const pid_t thread = gettid();
  if (bus_errors.ending.load() == thread) siglongjmp(bus_errors.unreachable, 1);
  ++bus_errors.readers;
  const std::optional<Hit> hit = info->si_code > 0 ? find(info->si_addr) : std::nullopt;
  if (hit) {
    pid_t nobody = 0;
    if (bus_errors.ending.compare_exchange_strong(nobody, thread)) end_process(*hit, info->si_code);
    for (;;) pause();  // another thread ends the process
  }
  --bus_errors.readers;
  pass_on(signal, info, context);
  errno = saved;
}

/// Once, and for good: whoever handles SIGBUS later may have ours as its former one.
void install() {
  static const bool installed = [] {
    struct sigaction ours {};
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGBUS, nullptr, &bus_errors.former);
    return sigaction(SIGBUS, &ours, nullptr) == 0;
  }();
  (void)installed;
}

bool enter(const Watched& watched) {
  return std::ranges::any_of(bus_errors.table, [&](std::atomic<const Watched*>& entry) {
    const Watched* nothing = nullptr;
    return entry.compare_exchange_strong(nothing, &watched);
  });
}

/// No handler reads it any more on return.
void leave(const Watched& watched) {
  for (std::atomic<const Watched*>& entry : bus_errors.table) {
    const Watched* own = &watched;
    if (entry.compare_exchange_strong(own, nullptr)) break;
  }
  while (bus_errors.readers.load() != 0) std::this_thread::yield();
}

}  // namespace

BusErrorWatch::BusErrorWatch() = default;
BusErrorWatch::BusErrorWatch(BusErrorWatch&&) noexcept = default;

BusErrorWatch::BusErrorWatch(WatchedMemory memory)
    : watched_(std::make_unique<Watched>(Watched{.process = getpid(), .memory = std::move(memory)})) {
  install();
  if (!enter(*watched_)) watched_.reset();
}

BusErrorWatch& BusErrorWatch::operator=(BusErrorWatch&& other) noexcept {
  std::swap(watched_, other.watched_);
  return *this;
}

BusErrorWatch::~BusErrorWatch() {
  if (watched_) leave(*watched_);
}

}  // namespace shmoe::shmem
