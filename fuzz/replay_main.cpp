// Runs the files and folders of the command line once through the target that it is linked with.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz/target.hpp"

namespace {

namespace fs = std::filesystem;

void replay(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string input{std::istreambuf_iterator<char>(file), {}};
  fmt::print("{}, {} bytes\n", path.filename().native(), input.size());
  std::fflush(stdout);  // before the input that ends the process
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> inputs;
  for (const char* argument : std::span(argv, static_cast<std::size_t>(argc)).subspan(1)) {
    if (!fs::is_directory(argument))
      inputs.emplace_back(argument);
    else
      inputs.insert(inputs.end(), fs::directory_iterator(argument), {});
  }
  std::ranges::sort(inputs);
  for (const fs::path& input : inputs) replay(input);
  fmt::print("{} inputs\n", inputs.size());
  return inputs.empty() ? 1 : 0;
}
