// Writes small programs in MLIR bytecode, right ones and wrong ones, for tests of the reader.
//
// Each added item gets the next number; nothing is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mydev {

struct Bytes {
  std::vector<std::byte> data;

  Bytes& byte(unsigned value) {
    data.push_back(static_cast<std::byte>(value));
    return *this;
  }
  Bytes& varint(uint64_t value) {
    // The first byte has as many low zero bits as bytes follow.
    size_t more = 0;
    while (more < 8 && value >> (7 * (more + 1)) != 0) ++more;
    if (more == 8) {
      byte(0);
      for (size_t i = 0; i < 8; ++i) byte(static_cast<unsigned>(value >> (8 * i)) & 0xFF);
      return *this;
    }
    const uint64_t encoded = (value << (more + 1)) | (uint64_t{1} << more);
    for (size_t i = 0; i <= more; ++i) byte(static_cast<unsigned>(encoded >> (8 * i)) & 0xFF);
    return *this;
  }
  Bytes& signed_varint(int64_t value) {
    return varint((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63));
  }
  Bytes& append(const Bytes& other) {
    data.insert(data.end(), other.data.begin(), other.data.end());
    return *this;
  }
  Bytes& blob(const std::vector<unsigned>& bytes) {
    varint(bytes.size());
    for (const unsigned value : bytes) byte(value);
    return *this;
  }
  Bytes& section(unsigned id, const Bytes& contents) { return byte(id).varint(contents.data.size()).append(contents); }
};

// Returns a sequence of varints, which is most of bytecode.
inline Bytes varints(std::initializer_list<uint64_t> values) {
  Bytes bytes;
  for (const uint64_t value : values) bytes.varint(value);
  return bytes;
}

class BytecodeWriter {
 public:
  enum Dialect : uint64_t { kBuiltin, kVhlo, kSdy, kOther };
  uint64_t version = 6;

  BytecodeWriter() {
    for (const char* name : {"builtin", "vhlo", "sdy", "other"}) string(name);
  }

  uint64_t string(std::string_view text) { return add(strings_, std::string(text)); }
  uint64_t operator_name(Dialect dialect, std::string_view name) {
    return add(operators_, std::pair(dialect, string(name)));
  }
  uint64_t attribute(Dialect dialect, const Bytes& bytes, bool is_custom = true) {
    return add(attributes_, Entry{dialect, bytes, is_custom});
  }
  uint64_t type(Dialect dialect, const Bytes& bytes, bool is_custom = true) {
    return add(types_, Entry{dialect, bytes, is_custom});
  }
  uint64_t properties(const Bytes& bytes) { return add(properties_, bytes); }

  // --- what most programs have ---

  uint64_t builtin_string(std::string_view text) { return attribute(kBuiltin, varints({2, string(text)})); }
  uint64_t vhlo_string(std::string_view text) { return attribute(kVhlo, varints({14, string(text)})); }
  uint64_t unknown_location() { return attribute(kBuiltin, varints({15})); }
  uint64_t file_location(std::string_view file, uint64_t line, uint64_t column) {
    return attribute(kBuiltin, varints({11, builtin_string(file), line, column}));
  }
  uint64_t element_type(uint64_t code) { return type(kVhlo, varints({code})); }
  uint64_t tensor_type(const std::vector<int64_t>& sizes, uint64_t element) {
    Bytes bytes = varints({20, sizes.size()});
    for (const int64_t size : sizes) bytes.signed_varint(size);
    return type(kVhlo, bytes.varint(element));
  }

  // --- the program ---

  Bytes finish(const Bytes& operations) const {
    Bytes program;
    for (const unsigned byte : {0x4DU, 0x4CU, 0xEFU, 0x52U}) program.byte(byte);
    program.varint(version);
    for (const char c : std::string_view("StableHLO_v1.13.0")) program.byte(static_cast<unsigned char>(c));
    program.byte(0);
    program.section(0, strings()).section(1, dialects());
    Bytes data, offsets = varints({attributes_.size(), types_.size()});
    for (const auto* entries : {&attributes_, &types_}) {
      for (const Entry& entry : *entries) {
        offsets.varint(entry.dialect).varint(1).varint(entry.bytes.data.size() << 1 | (entry.is_custom ? 1 : 0));
        data.append(entry.bytes);
      }
    }
    program.section(2, data).section(3, offsets).section(4, operations);
    Bytes properties = varints({properties_.size()});
    for (const Bytes& bytes : properties_) properties.varint(bytes.data.size()).append(bytes);
    return program.section(8, properties);
  }

 private:
  struct Entry {
    Dialect dialect;
    Bytes bytes;
    bool is_custom;
  };

  template <typename T>
  static uint64_t add(std::vector<T>& list, T value) {
    list.push_back(std::move(value));
    return list.size() - 1;
  }

  Bytes strings() const {
    Bytes bytes = varints({strings_.size()});
    for (auto text = strings_.rbegin(); text != strings_.rend(); ++text) bytes.varint(text->size() + 1);
    for (const std::string& text : strings_) {
      for (const char c : text) bytes.byte(static_cast<unsigned char>(c));
      bytes.byte(0);
    }
    return bytes;
  }

  Bytes dialects() const {
    Bytes bytes = varints({4, 0 << 1, 1 << 1, 2 << 1, 3 << 1, operators_.size()});
    for (const auto& [dialect, name] : operators_) bytes.varint(dialect).varint(1).varint(name << 1 | 1);
    return bytes;
  }

  std::vector<std::string> strings_;
  std::vector<std::pair<Dialect, uint64_t>> operators_;
  std::vector<Entry> attributes_, types_;
  std::vector<Bytes> properties_;
};

// A module with a function main(f32[4]) -> f32[4] that adds its argument to itself, in parts that tests exchange.
struct AdditionProgram {
  BytecodeWriter writer;
  uint64_t f32 = writer.element_type(4);
  uint64_t tensor = writer.tensor_type({4}, f32);
  uint64_t location = writer.file_location("model.py", 12, 3);
  std::string operator_name = "add_v1";
  std::vector<uint64_t> operands = {0, 0};  // numbers of values
  uint64_t values = 2;                      // that the body says it has
  Bytes more_of_operator;                   // after its operands
  unsigned more_parts = 0;                  // bits that say so

  static constexpr unsigned kAttributes = 1, kResults = 2, kOperands = 4, kRegions = 16, kProperties = 64;

  Bytes function_properties() {
    const uint64_t none = writer.attribute(BytecodeWriter::kVhlo, varints({1, 0}));
    const uint64_t type = writer.type(BytecodeWriter::kVhlo, varints({8, 1, tensor, 1, tensor}));
    const uint64_t type_attribute = writer.attribute(BytecodeWriter::kVhlo, varints({17, type}));
    return varints({none, type_attribute, none, writer.vhlo_string("main"), writer.vhlo_string("public")});
  }

  Bytes program() {
    const uint64_t add = writer.operator_name(BytecodeWriter::kVhlo, operator_name);
    const uint64_t end = writer.operator_name(BytecodeWriter::kVhlo, "return_v1");
    Bytes body = varints({1, values});
    body.varint(2 << 1 | 1).varint(1).varint(tensor << 1).byte(0);
    body.varint(add).byte(kResults | kOperands | more_parts).varint(location).varint(1).varint(tensor);
    body.varint(operands.size());
    for (const uint64_t operand : operands) body.varint(operand);
    body.append(more_of_operator);
    body.varint(end).byte(kOperands).varint(location).varint(1).varint(1);
    return module(body);
  }

  // A module with a function of this body.
  Bytes module(const Bytes& body) {
    const uint64_t module_name = writer.operator_name(BytecodeWriter::kBuiltin, "module");
    const uint64_t function_name = writer.operator_name(BytecodeWriter::kVhlo, "func_v1");
    const uint64_t properties = writer.properties(function_properties());
    Bytes functions = varints({1, 0, 1 << 1});
    functions.varint(function_name).byte(kRegions | kProperties).varint(location).varint(properties);
    functions.varint(1 << 1 | 1).section(4, body);
    const uint64_t name = writer.properties(varints({writer.builtin_string("addition") << 1 | 1, 0}));
    Bytes top = varints({1 << 1});
    top.varint(module_name).byte(kRegions | kProperties).varint(location).varint(name);
    top.varint(1 << 1 | 1).section(4, functions);
    return writer.finish(top);
  }
};

}  // namespace mydev
