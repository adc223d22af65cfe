// Rank 0 writes a letter into rank 1's memory and raises a flag there; rank 1 waits for the flag, then reads.
// usage: mpirun --oversubscribe -np 2 01_notify_wait [--break]
//   --break   rank 0 never raises the flag

#include <string_view>
#include <vector>

#include "apps/lesson.hpp"

namespace {

using namespace shmoe;
using runtime::CoreContext;
using runtime::World;
using shmem::SignalOp;
using shmem::Token;
using shmem::Witness;

constexpr Offset kLetter{0};  // where it lies: the start of the user data, on every rank
constexpr Rank kSender{0};
constexpr Rank kReceiver{1};

// [send]
void send(CoreContext& context, bool forget_to_notify) {
  const std::string_view letter = "the rows are here";
  context.put(kReceiver, kLetter, std::span<const char>{letter});
  context.fence(kReceiver);  // the letter before the flag
  if (forget_to_notify) return;
  const Slot flag = context.slots().flag().at(0, kSender);
  context.signal(kReceiver, flag, SignalOp::set, letter.size());
}
// [/send]

// [receive]
void receive(CoreContext& context) {
  const Slot flag = context.slots().flag().at(0, kSender);
  Token token = context.wait(flag, Compare::not_equal, 0);
  const std::uint64_t length = token.arrival().value;
  const Witness arrived = consume_token(std::move(token));

  std::vector<char> scratch(length);  // used only where a rank's memory cannot be read in place
  const auto letter = context.read(context.rank(), kLetter, std::span{scratch}, arrived);
  fmt::print("rank 1: the flag holds {}\n", length);
  fmt::print("rank 1: the letter says: {}\n", std::string_view{letter.data().data(), letter.data().size()});
}
// [/receive]

}  // namespace

// [main]
int main(int argc, char** argv) {
  return lesson::run(argc, argv, {.ranks = 2, .cores = 1, .options = {"--break"}},
                     [](World& world, const lesson::Options& options) {
                       return world.all().launch("letter", [&](CoreContext& context) {
                         if (context.rank() == kSender) send(context, options.has("--break"));
                         if (context.rank() == kReceiver) receive(context);
                       });
                     });
}
// [/main]
