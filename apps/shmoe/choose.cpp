// shmoe choose: which operator for which need.

#include <array>
#include <memory>
#include <optional>

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
    "below 1 MB. It knows no links; with --links the lengths of the shards say which way is faster on those links, "
    "and\n"
    "that way is printed first:\n\n"
    "  ranks 4\n"
    "  * * 8000          # MB/s from every rank to every other one; a later line wins\n"
    "  0 1 50            # MB/s from rank 0 to rank 1\n"
    "  2 1 none          # no link; what is not named has no limit\n\n"
    "The same file makes the puts of a job as slow: `shmoe run --links`, `shmoe moe --links`, SHMOE_LINKS.\n\n"
    "For dispatch the tree says prefill or decode. Where the one ends is this project's choice: up to {} tokens of a\n"
    "rank are a decode step, of low latency.\n"
    "Exit code: 0, or 1 where a link is missing without which no way is possible.";

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
  std::optional<std::int64_t> bytes;
  std::optional<std::int64_t> tokens;
  std::string links;
};
constexpr std::int64_t kDefaultTokens = 128;

bool is_collective(ops::Need need) { return need == ops::Need::all_to_all || need == ops::Need::reduce_scatter; }

Error choose_fault(std::string text) { return {.code = Errc::invalid_argument, .context = std::move(text)}; }

/// What an option says that the need has no use for, or lacks. Empty: nothing is wrong.
std::string option_fault(const ChooseOptions& options, ops::Need need) {
  if (is_collective(need)) {
    if (!options.bytes) return fmt::format("{} needs --bytes, those of a rank's input", options.need);
    return options.tokens ? fmt::format("--tokens is for dispatch: leave it out of {}", options.need) : std::string{};
  }
  if (!options.group.empty() || options.bytes || !options.links.empty()) {
    return fmt::format("--group, --bytes and --links are for all-to-all and reduce-scatter: leave them out of {}",
                       options.need);
  }
  if (options.tokens && need != ops::Need::dispatch) return "--tokens is for dispatch: leave it out";
  return {};
}

/// A collective on given links.
struct OnLinks {
  const runtime::LinkSpeeds& links;
  const ops::DetourGroup& group;
  std::int64_t elements;

  [[nodiscard]] std::optional<ops::Link> missing(ops::Way way) const {
    return ops::missing_link(links, group, elements, way);
  }
  [[nodiscard]] double seconds(ops::Way way) const {
    return ops::predicted_seconds(links, group, elements, ops::Element::fp32, way);
  }
};

std::string title_of(const ChooseOptions& options, const ops::Choice& choice, ops::Way way) {
  return way == ops::Way::detour ? std::string{choice.op}
                                 : fmt::format("direct {}: {} without lenders", options.need, choice.op);
}

std::string prediction(const OnLinks& on) {
  const double direct = on.seconds(ops::Way::direct);
  if (on.group.detours() == 0) return fmt::format("predicted on these links: {:.3f} ms\n", 1e3 * direct);
  if (const auto missing = on.missing(ops::Way::detour)) {
    return fmt::format("predicted on these links: {:.3f} ms; a detour is not possible: no link {} -> {}\n",
                       1e3 * direct, missing->from, missing->to);
  }
  return fmt::format("predicted on these links: {:.3f} ms with the detour, {:.2f} times as fast as the direct way\n",
                     1e3 * on.seconds(ops::Way::detour),
                     ops::predicted_gain(on.links, on.group, on.elements, ops::Element::fp32));
}

/// The way to take where the links decide; the tree's where both last as long.
ops::Way way_on(const OnLinks& on, ops::Way by_tree) {
  if (on.group.detours() == 0 || on.missing(ops::Way::detour)) return ops::Way::direct;
  const double direct = on.seconds(ops::Way::direct);
  const double detour = on.seconds(ops::Way::detour);
  if (direct == detour) return by_tree;
  return detour < direct ? ops::Way::detour : ops::Way::direct;
}

Result<std::string> answer_on_links(const ChooseOptions& options, const ops::DetourGroup& group,
                                    const ops::Choice& choice) {
  const auto links = runtime::LinkSpeeds::load(options.links);
  if (!links) return links.error();
  if (links->ranks() != options.ranks) {
    return choose_fault(fmt::format("{} has {} ranks, --ranks says {}: they must be the same", options.links,
                                    links->ranks(), options.ranks));
  }
  const std::int64_t size = bytes_of_element(ops::Element::fp32);
  const OnLinks on{.links = *links, .group = group, .elements = (*options.bytes + size - 1) / size};
  if (const auto missing = on.missing(ops::Way::direct)) {
    return choose_fault(
        fmt::format("not possible: no link {} -> {}, which a detour needs too: give {} such a link, or choose another "
                    "--group",
                    missing->from, missing->to, options.links));
  }
  const ops::Way way = way_on(on, choice.way);
  std::string text = title_of(options, choice, way) + '\n' + prediction(on);
  if (way == choice.way) return text + fmt::format("the tree says the same: {}\n", choice.why);
  return text + fmt::format("the tree, which knows no links, says {}: believe the links\nthere: {}\n",
                            title_of(options, choice, choice.way), choice.why);
}

/// The other operators of a step, and how to try it.
std::string step_of(const ChooseOptions& options, std::string_view op) {
  const std::int64_t tokens = options.tokens.value_or(kDefaultTokens);
  return op == "dispatch_low_latency"
             ? fmt::format("then combine_low_latency; to try it: shmoe moe --mode low-latency --tokens {}\n", tokens)
             : fmt::format("after layout and notify, then combine_normal; to try it: shmoe moe --tokens {}\n", tokens);
}

Result<std::string> answer(const ChooseOptions& options) {
  const auto need = std::ranges::find_if(kNeeds, [&](const NeedWord& word) { return options.need == word.word; })->need;
  if (std::string fault = option_fault(options, need); !fault.empty()) return choose_fault(std::move(fault));
  std::vector<Rank> members;
  for (const std::int32_t rank : options.group) members.emplace_back(rank);
  if (const std::string fault = ops::DetourGroup::fault(members, options.ranks); !fault.empty()) {
    return choose_fault(fmt::format("{}: change --group or --ranks", fault));
  }
  const ops::DetourGroup group(members, options.ranks);
  if (is_collective(need) && group.size() == 1) {
    return choose_fault(fmt::format("a group of one rank has nobody to exchange with: name two ranks or more in {}",
                                    options.group.empty() ? "--ranks" : "--group"));
  }
  const ops::Choice choice = ops::choose(need, {.ranks = options.ranks,
                                                .communicating = group.size(),
                                                .bytes = options.bytes.value_or(0),
                                                .tokens = options.tokens.value_or(kDefaultTokens)});
  if (!options.links.empty()) return answer_on_links(options, group, choice);
  if (is_collective(need)) return fmt::format("{}\n{}\n", title_of(options, choice, choice.way), choice.why);
  return fmt::format("{}\n{}\n{}", choice.op, choice.why,
                     need == ops::Need::dispatch ? step_of(options, choice.op) : std::string{});
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
  CLI::App* command = app.add_subcommand("choose", fmt::format(kDescription, ops::kDecodeTokens));
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
  command->add_option("--group", options->group, "the communicating ranks, two or more, by commas; default all")
      ->delimiter(',')
      ->type_name("A,B,..");
  command->add_option("--bytes", options->bytes, "of a rank's input; all-to-all and reduce-scatter need it")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 42).description(""))
      ->type_name("B");
  command->add_option("--tokens", options->tokens, fmt::format("of a rank, for dispatch; default {}", kDefaultTokens))
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 30).description(""))
      ->type_name("T");
  command->add_option("--links", options->links, "a file that says how fast links are")->type_name("FILE");
  command->callback([options, &invocation] { invocation.exit_code = choose_operator(*options); });
}

}  // namespace shmoe::apps
