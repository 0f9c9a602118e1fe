#include "stablehlo/bytecode/reader.h"

#include "stablehlo/bytecode/attributes.h"
#include "stablehlo/bytecode/locations.h"
#include "stablehlo/bytecode/operations.h"
#include "stablehlo/bytecode/sections.h"

namespace mydev::stablehlo {

namespace {

constexpr std::string_view kProducer = "StableHLO_v";

}  // namespace

Module read_bytecode(std::span<const std::byte> bytes) {
  Module module;
  Module::Contents& contents = module.contents();
  contents.storage.assign(bytes.begin(), bytes.end());
  BytecodeSections sections = read_sections(contents.storage);
  if (sections.producer.starts_with(kProducer)) contents.version = sections.producer.substr(kProducer.size());
  contents.locations = bytecode_locations(sections);
  BytecodeAttributes attributes(sections, contents);
  BytecodeOperations(sections, attributes, contents).read_module();
  return module;
}

}  // namespace mydev::stablehlo
