// shmoe choose: which operator for which need.

#include <array>
#include <memory>

#include "apps/shmoe/command.hpp"
#include "ops/detour/choose.hpp"

namespace shmoe::apps {
namespace {

constexpr const char* kDescription =
    "Which operator to call: the published decision tree.\n\n"
    "  shmoe choose all-to-all --ranks 8 --group 0,1,5 --bytes 65536\n"
    "  shmoe choose reduce-scatter --ranks 8 --group 0,1 --bytes 4000000\n"
    "  shmoe choose all-to-all --ranks 4 --group 0,1 --bytes 65536 --links links.txt\n"
    "  shmoe choose dispatch --tokens 16                 normal, or low latency\n"
    "  shmoe choose attention-to-experts\n\n"
    "A collective among some of the ranks may take a detour: each chunk is cut into a shard that goes straight to its\n"
    "receiver and one for the memory of each rank outside the group, where the receiver reads it. The tree does so\n"
    "below 1 MB. With --links it also says what the lengths of the shards predict on those links:\n\n"
    "  ranks 4\n"
    "  * * 8000          MB/s from every rank to every other one; a later line wins\n"
    "  0 1 50            MB/s from rank 0 to rank 1\n"
    "  2 1 none          no link; what is not named has no limit\n\n"
    "The same file makes the puts of a job as slow: `shmoe run --links`, `shmoe moe --links`, SHMOE_LINKS.";

struct NeedWord {
  const char* word;
  ops::Need need;
};
constexpr std::array kNeeds{
    NeedWord{"all-to-all", ops::Need::all_to_all}, NeedWord{"reduce-scatter", ops::Need::reduce_scatter},
    NeedWord{"attention-to-experts", ops::Need::attention_to_experts},
    NeedWord{"experts-to-attention", ops::Need::experts_to_attention}, NeedWord{"dispatch", ops::Need::dispatch}};

struct ChooseOptions {
  std::string need;
  std::int32_t ranks = 8;
  std::vector<std::int32_t> group;
  std::int64_t bytes = 0;
  std::int64_t tokens = 128;
  std::string links;
};

Error choose_fault(std::string text) { return {.code = Errc::invalid_argument, .context = std::move(text)}; }

/// The links that a detour would use, and what it would gain.
Result<std::string> prediction(const ChooseOptions& options, const ops::DetourGroup& group) {
  const auto links = runtime::LinkSpeeds::load(options.links);
  if (!links) return links.error();
  if (links->ranks() != options.ranks) {
    return choose_fault(fmt::format("{} has {} ranks, --ranks says {}: they must be the same", options.links,
                                    links->ranks(), options.ranks));
  }
  for (const Rank source : group.members()) {
    for (Rank memory{0}; memory.value() < options.ranks; ++memory) {
      if (memory == source || links->exists(source, memory)) continue;
      return fmt::format("no link from rank {} to rank {}: a detour over all lenders is not possible\n", source,
                         memory);
    }
  }
  const std::int64_t elements = options.bytes / bytes_of_element(ops::Element::fp32);
  return fmt::format("predicted on these links: {:.3f} ms with the detour, {:.2f} times as fast as the direct way\n",
                     1e3 * ops::predicted_seconds(*links, group, elements, ops::Element::fp32),
                     ops::predicted_gain(*links, group, elements, ops::Element::fp32));
}

Result<std::string> answer(const ChooseOptions& options) {
  const auto need = std::ranges::find_if(kNeeds, [&](const NeedWord& word) { return options.need == word.word; })->need;
  std::vector<Rank> members;
  for (const std::int32_t rank : options.group) members.emplace_back(rank);
  if (const std::string fault = ops::DetourGroup::fault(members, options.ranks); !fault.empty()) {
    return choose_fault(fmt::format("{}: change --group or --ranks", fault));
  }
  const ops::DetourGroup group(members, options.ranks);
  const ops::Choice choice = ops::choose(
      need, {.ranks = options.ranks, .communicating = group.size(), .bytes = options.bytes, .tokens = options.tokens});
  std::string text = fmt::format("{}\n{}\n", choice.op, choice.why);
  if (options.links.empty()) return text;
  const auto predicted = prediction(options, group);
  if (!predicted) return predicted.error();
  return text + *predicted;
}

int choose_operator(const ChooseOptions& options) {
  const auto text = answer(options);
  if (!text) return failed("shmoe choose", text.error());
  fmt::print("{}", *text);
  return 0;
}

}  // namespace

void add_choose(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<ChooseOptions>();
  CLI::App* command = app.add_subcommand("choose", kDescription);
  std::vector<std::string> words;
  for (const NeedWord& need : kNeeds) words.emplace_back(need.word);
  command
      ->add_option("need", options->need,
                   "all-to-all, reduce-scatter, attention-to-experts, experts-to-attention or dispatch")
      ->required()
      ->check(CLI::IsMember(words).description(""))
      ->type_name("");
  command->add_option("-n,--ranks", options->ranks, "ranks of the communicator, default 8")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("R");
  command->add_option("--group", options->group, "the communicating ranks, by commas; default all")
      ->delimiter(',')
      ->type_name("A,B,..");
  command->add_option("--bytes", options->bytes, "of a rank's input, default 0")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 42).description(""))
      ->type_name("B");
  command->add_option("--tokens", options->tokens, "of a rank, default 128")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30).description(""))
      ->type_name("T");
  command->add_option("--links", options->links, "a file that says how fast links are")->type_name("FILE");
  command->callback([options, &invocation] { invocation.exit_code = choose_operator(*options); });
}

}  // namespace shmoe::apps
