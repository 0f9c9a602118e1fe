// A StableHLO program, normalised. A lowering reads it.
//
//   const Module module = read_bytecode(bytes);           // bytecode/reader.h
//   verify(module);                                       // verifier/verifier.h
//   for (const Operation* op : module.main().body->body().operations) lower(*op);
//
// It is normalised so: VHLO's versions of an operator are one (operator.h); conversions between dialects are gone; all
// types are `Type`, whatever dialect they were of; symbols are plain names; Shardy's meshes and shardings are data
// (sharding.h).
//
// A Module owns all that it is made of, the bytes of constants and of locations included; nothing in it moves when the
// Module does. Once read it is not written, and any thread may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/api.h"
#include "stablehlo/ir/attribute.h"
#include "stablehlo/ir/operation.h"
#include "stablehlo/ir/type.h"

namespace mydev::stablehlo {

// Says where operations came from, when someone asks. Any thread.
class LocationTable {
 public:
  virtual ~LocationTable() = default;
  // "\"model.py\":12:3", "\"jit(f)/add\"(\"model.py\":12:3)"; at most some hundred characters. "" if it is not known.
  virtual std::string text(uint32_t location) const = 0;
};

struct FunctionArgument {
  const Value* value = nullptr;
  Dictionary attributes;  // "mhlo.sharding", "sdy.sharding", "tf.aliasing_output", "jax.buffer_donor", ...
};

struct FunctionResult {
  const Type* type = nullptr;
  Dictionary attributes;  // "jax.result_info", "mhlo.sharding", ...
};

struct Function {
  const LocationTable* locations = nullptr;  // the module's; nullptr if it has none
  std::string name;
  std::string visibility;                   // "private", "public" or "", which is public
  std::vector<FunctionArgument> arguments;  // whose values are the arguments of the body's block
  std::vector<FunctionResult> results;
  Dictionary attributes;  // those of dialects
  const Region* body = nullptr;
  uint32_t location = 0;
  uint32_t value_count = 0;      // of all regions
  uint32_t operation_count = 0;  // likewise
};

class MYDEV_API Module {
 public:
  Module();
  ~Module();
  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;

  const std::string& name() const noexcept;
  const Dictionary& attributes() const noexcept;                   // "mhlo.num_partitions", "mhlo.num_replicas", ...
  const std::vector<const Function*>& functions() const noexcept;  // in the order of the text
  // The mesh that shardings name; nullptr if there is none.
  const Mesh* find_mesh(std::string_view name) const noexcept;
  const std::map<std::string, Mesh, std::less<>>& meshes() const noexcept;
  // nullptr if there is none.
  const Function* find_function(std::string_view name) const noexcept;
  // The function that is run, "main". Raises INVALID_ARGUMENT if there is none.
  const Function& main() const;
  // The function that an operation calls; its attribute ("callee", "decomposition") names it. Raises INVALID_ARGUMENT
  // if there is none.
  const Function& callee(const Operation& op, std::string_view attribute = "callee") const;
  std::string location_text(uint32_t location) const;
  // The version of StableHLO that the bytes declared, "1.13.0"; "" if the module was read from text.
  const std::string& version() const noexcept;

  // --- for readers and rewriters; a lowering does not need them ---
  struct Contents;
  Contents& contents() noexcept { return *contents_; }

 private:
  std::unique_ptr<Contents> contents_;
};

// The objects that a module owns. They are in deques, so that they do not move.
struct Module::Contents {
  std::string name, version;
  Dictionary attributes;
  std::vector<const Function*> function_order;
  std::map<std::string, const Function*, std::less<>> functions_by_name;
  std::map<std::string, Mesh, std::less<>> meshes;
  std::unique_ptr<const LocationTable> locations;

  std::deque<Function> functions;
  std::deque<Region> regions;
  std::deque<Block> blocks;
  std::deque<Operation> operations;
  std::deque<Value> values;
  std::deque<Attribute> all_attributes;
  std::deque<Type> types;
  std::deque<std::string> strings;              // names
  std::deque<std::vector<std::byte>> literals;  // whose bytes are not those of `storage`
  std::vector<std::byte> storage;               // the program as it came

  const Type* add(Type type) { return &types.emplace_back(std::move(type)); }
  const Attribute* add(Attribute attribute) { return &all_attributes.emplace_back(std::move(attribute)); }
  std::string_view add_string(std::string_view text) { return strings.emplace_back(text); }
};

}  // namespace mydev::stablehlo
