#pragma once
// The operators there are: which variants each has, what it needs, what it takes at most, and how much memory a call asks
// for before it runs.
//
//   size = workspace_size(comm, args)      every operator has it, beside its own declaration
//   args.workspace = size.own bytes        of this rank; and size.symmetric bytes, allocated on every rank
//   operator(comm, args)                   refuses less, with both sizes
//
// The entries come from whoever has the operators: this file knows none.

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "shmem/result.hpp"
#include "shmem/types.hpp"

namespace shmoe::runtime {

/// What an operator takes for a call beside its tensors.
struct WorkspaceSize {
  Bytes symmetric{0};  // on every rank alike: windows and buffers
  Bytes own{0};        // of this rank, for all its cores; without a workspace the cores take theirs themselves
  bool operator==(const WorkspaceSize&) const = default;
};

/// A call as far as its memory depends on it, for an estimate before there are any tensors.
struct CallShape {
  std::int32_t ranks = 8;
  std::int32_t cores = 4;
  std::int32_t experts = 256;
  std::int32_t topk = 8;
  std::int64_t tokens = 128;  // of each rank
  std::int64_t hidden = 7168;
  DType dtype = DType::bf16;
  bool int8_rows = false;
};

/// Both ends belong to it.
struct Range {
  static constexpr std::int64_t kAsMemoryGoes = std::numeric_limits<std::int64_t>::max();

  std::int64_t least = 0;
  std::int64_t most = kAsMemoryGoes;
  bool operator==(const Range&) const = default;
};

/// Of one argument.
struct Limit {
  std::string_view of;
  Range safe;
  std::optional<Range> published = {};  // what the published host enforces, any without a check; none: no such argument
  std::string_view besides = {};        // what else it depends on
};

/// One way in which calls of an operator differ.
struct Variant {
  std::string_view of;
  std::vector<std::string_view> choices;
  std::vector<std::string_view> safe_alone = {};  // those of them that a faithful profile refuses
};

struct Needs {
  std::string_view slots;                        // and who declares them
  std::vector<std::string_view> symmetric = {};  // tensors that peers read or write
  std::string_view window = {};                  // further symmetric memory, and who allocates it
  std::vector<std::string_view> before = {};     // operators whose tables it takes
};

struct Operator {
  std::string_view name;
  std::string_view family;  // folder of ops/
  std::string_view header;
  std::string_view does;
  std::vector<std::string_view> published = {};  // names of the published operators
  std::vector<std::string_view> calls;           // functions that run it, whole or a half
  std::vector<Variant> variants;
  Needs needs;
  std::vector<std::string_view> stages;  // of the kernel, in order
  std::vector<Limit> limits;
  WorkspaceSize (*workspace)(const CallShape&);
  std::string_view own_on = "each rank";  // who takes WorkspaceSize::own
  bool faithful_limits = false;           // a faithful profile enforces the published limits, not those of safe
};

class Registry {
 public:
  /// Errors:  a broken contract where the name is taken
  void add(Operator entry);
  [[nodiscard]] const std::vector<Operator>& operators() const { return operators_; }
  /// By its own name, one of its calls or a published name.
  ///
  /// Errors:  invalid_argument with the names there are
  [[nodiscard]] Result<const Operator*> find(std::string_view name) const;

 private:
  std::vector<Operator> operators_;
};

}  // namespace shmoe::runtime
