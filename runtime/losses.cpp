#include "runtime/losses.hpp"

#include <algorithm>

#include "shmem/last_words.hpp"

namespace shmoe::runtime {
namespace {

std::vector<Rank> found_gone(const Survivors& survivors) {
  std::vector<Rank> gone;
  for (const Rank member : survivors.members) {
    if (member != survivors.self && survivors.gone(member)) gone.push_back(member);
  }
  std::ranges::sort(gone);
  return gone;
}

}  // namespace

Result<std::vector<Rank>> settle_losses(const Survivors& survivors) {
  shmem::RollCall place = survivors.roll_call(survivors.members.front());
  std::vector<Rank> found;
  shmem::wait_until(
      [&] {
        if (place.chosen()) return true;
        found = found_gone(survivors);
        return !found.empty();
      },
      survivors.limit);
  std::optional<Rank> chosen = place.chosen();
  if (!chosen && found.empty()) {
    return Error{.code = Errc::deadline,
                 .context = fmt::format("rank {} finds none of the {} members gone: go on with the communicator as it "
                                        "is, or end",
                                        survivors.self, survivors.members.size()),
                 .where = survivors.self};
  }
  if (!chosen) {
    survivors.roll_call(survivors.self).note(found);
    chosen = place.choose(survivors.self);
  }
  return survivors.roll_call(*chosen).gone();
}

}  // namespace shmoe::runtime
