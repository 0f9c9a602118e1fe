// print_stablehlo FILE...: the text of programs in bytecode or text, or why they are none, each after a line "== FILE".
// For tests that compare it with what other tools make of the same bytes.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "stablehlo/bytecode/reader.h"
#include "stablehlo/text/text.h"
#include "stablehlo/verifier/verifier.h"

int main(int count, char** arguments) {
  for (const char* path : std::span(arguments, static_cast<size_t>(count)).subspan(1)) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    std::printf("== %s\n", path);
    try {
      const std::span<const std::byte> program = std::as_bytes(std::span(bytes));
      const mydev::stablehlo::Module module = mydev::stablehlo::is_bytecode(program)
                                                  ? mydev::stablehlo::read_bytecode(program)
                                                  : mydev::stablehlo::read_text({bytes.data(), bytes.size()});
      mydev::stablehlo::verify(module);
      std::fputs(mydev::stablehlo::print(module).c_str(), stdout);
    } catch (const mydev::Error& error) {
      std::printf("error: %s\n", error.what());
    }
  }
  return 0;
}
