#include "stablehlo/bytecode/operations.h"

#include <charconv>

#include "stablehlo/ir/limits.h"

namespace mydev::stablehlo {

namespace {

// Bits that say which parts an operation has.
enum Part : uint8_t {
  kHasAttributes = 1,
  kHasResults = 2,
  kHasOperands = 4,
  kHasSuccessors = 8,
  kHasRegions = 16,
  kHasUseOrders = 32,
  kHasProperties = 64,
};

std::string full_name(std::string_view dialect, std::string_view name) {
  return std::string(dialect) + "." + std::string(name);
}

}  // namespace

std::string BytecodeOperations::location_suffix(uint32_t location) const {
  const std::string text = contents_.locations != nullptr ? contents_.locations->text(location) : "";
  return text.empty() ? text : " (at " + text + ")";
}

BytecodeOperations::Header BytecodeOperations::read_header(Cursor& cursor) {
  Header header;
  header.offset = cursor.offset();
  const BytecodeSections::OperatorName& name =
      sections_.operators[cursor.index(sections_.operators.size(), "name of an operator")];
  header.dialect = sections_.dialects[name.dialect];
  header.name = name.name;
  const uint8_t parts = cursor.byte();
  header.location = static_cast<uint32_t>(cursor.index(sections_.attributes.size(), "location"));
  if ((parts & kHasAttributes) != 0) header.attributes = &attributes_.attribute_of<Dictionary>(cursor, "a dictionary");
  if ((parts & kHasProperties) != 0) {
    header.properties = &sections_.properties[cursor.index(sections_.properties.size(), "properties")];
  }
  if ((parts & kHasResults) != 0) header.result_types = attributes_.types(cursor);
  if ((parts & kHasOperands) != 0) {
    header.operands.resize(cursor.count("operands"));
    for (size_t& operand : header.operands) operand = cursor.varint();
  }
  MYDEV_CHECK((parts & kHasSuccessors) == 0, MYDEV_UNIMPLEMENTED, full_name(header.dialect, header.name),
              location_suffix(header.location), " jumps to other blocks, which no operator of StableHLO does");
  if ((parts & kHasUseOrders) != 0) skip_use_orders(cursor, header.result_types.size());
  if ((parts & kHasRegions) != 0) {
    const uint64_t encoded = cursor.varint();
    header.is_isolated = (encoded & 1) != 0;
    header.regions = encoded >> 1;
    if (header.regions > cursor.remaining()) cursor.fail("an operation has ", header.regions, " regions");
  }
  return header;
}

// Skips the orders in which the uses of values are listed; nothing here depends on them.
void BytecodeOperations::skip_use_orders(Cursor& cursor, size_t values) {
  const size_t count = values == 1 ? 1 : cursor.count("orders of uses");
  for (size_t i = 0; i < count; ++i) {
    if (values != 1) cursor.varint();
    const size_t numbers = cursor.varint() >> 1;
    for (size_t n = 0; n < numbers; ++n) cursor.varint();
  }
}

Cursor BytecodeOperations::properties_of(const Header& header) const {
  if (header.properties == nullptr) {
    Cursor::fail_at(header.offset, full_name(header.dialect, header.name), " has no properties");
  }
  return *header.properties;
}

void BytecodeOperations::read_module() {
  Cursor cursor = sections_.operations;
  const uint64_t encoded = cursor.varint();
  if (encoded != (1U << 1)) cursor.fail("expected one operation at the top, found ", encoded >> 1);
  const Header header = read_header(cursor);
  if (header.dialect != "builtin" || header.name != "module" || header.regions != 1 || !header.is_isolated) {
    Cursor::fail_at(header.offset, "expected a module, found ", full_name(header.dialect, header.name));
  }
  if (header.attributes != nullptr) contents_.attributes = *header.attributes;
  if (header.properties != nullptr) {
    Cursor properties = *header.properties;
    const Attribute* name = attributes_.optional_attribute(properties);
    if (name != nullptr && name->get_if<std::string>() != nullptr) contents_.name = *name->get_if<std::string>();
    attributes_.optional_attribute(properties);  // its visibility, of which nothing follows
    properties.expect_end("a module's properties");
  }
  Cursor body = read_section(cursor, SectionId::kOperations);
  read_module_body(body);
  body.expect_end("the module");
  cursor.expect_end("the operations' section");
}

void BytecodeOperations::read_module_body(Cursor& cursor) {
  const size_t blocks = cursor.count("blocks");
  if (blocks == 0) return;
  if (blocks != 1) cursor.fail("a module has ", blocks, " blocks, expected one");
  if (const size_t values = cursor.varint(); values != 0) cursor.fail("a module has ", values, " values of its own");
  const uint64_t encoded = cursor.varint();
  if ((encoded & 1) != 0) cursor.fail("a module has arguments");
  for (uint64_t i = 0; i < encoded >> 1; ++i) {
    const Header header = read_header(cursor);
    if (header.dialect == "vhlo" && header.name == "func_v1") {
      read_function(header, cursor);
    } else if (header.dialect == "sdy" && header.name == "mesh") {
      read_mesh(header);
    } else {
      raise(MYDEV_UNIMPLEMENTED, full_name(header.dialect, header.name) + location_suffix(header.location) +
                                     " is in a module; functions and meshes are all that modules may have");
    }
  }
}

void BytecodeOperations::read_mesh(const Header& header) {
  Cursor properties = properties_of(header);
  const Mesh mesh = attributes_.attribute_of<Mesh>(properties, "a mesh");
  const std::string& name = attributes_.attribute_of<std::string>(properties, "the name of a mesh");
  properties.expect_end("a mesh");
  if (!contents_.meshes.emplace(name, mesh).second) {
    Cursor::fail_at(header.offset, "there are two meshes called '", name, "'");
  }
}

void BytecodeOperations::read_signature(const Header& header, Function& function) {
  // The order is that of the names: arg_attrs, function_type, res_attrs, sym_name, sym_visibility.
  Cursor properties = properties_of(header);
  const auto& argument_attributes = attributes_.attribute_of<ArrayAttribute>(properties, "attributes of arguments");
  const Type* type = attributes_.attribute_of<const Type*>(properties, "the type of a function");
  const auto& result_attributes = attributes_.attribute_of<ArrayAttribute>(properties, "attributes of results");
  function.name = attributes_.attribute_of<std::string>(properties, "the name of a function");
  function.visibility = attributes_.attribute_of<std::string>(properties, "a visibility");
  properties.expect_end("a function");
  if (type->kind != TypeKind::kFunction) {
    Cursor::fail_at(header.offset, "function '", function.name, "' is of the type ", type->text());
  }
  const auto dictionary_of = [&](const ArrayAttribute& list, size_t i, size_t count) -> Dictionary {
    if (list.empty()) return {};
    const Dictionary* found = list.size() == count ? list[i]->get_if<Dictionary>() : nullptr;
    if (found == nullptr) {
      Cursor::fail_at(header.offset, "the attributes of function '", function.name,
                      "' are not one dictionary for each");
    }
    return *found;
  };
  for (size_t i = 0; i < type->inputs.size(); ++i) {
    Value* value = new_value(type->inputs[i]);
    value->index = static_cast<uint32_t>(i);
    function.arguments.push_back({value, dictionary_of(argument_attributes, i, type->inputs.size())});
  }
  for (size_t i = 0; i < type->results.size(); ++i) {
    function.results.push_back({type->results[i], dictionary_of(result_attributes, i, type->results.size())});
  }
  if (header.attributes != nullptr) function.attributes = *header.attributes;
}

void BytecodeOperations::read_function(const Header& header, Cursor& cursor) {
  Function& function = contents_.functions.emplace_back();
  function_ = &function;
  function.locations = contents_.locations.get();
  function.location = header.location;
  read_signature(header, function);
  contents_.function_order.push_back(&function);
  if (!contents_.functions_by_name.emplace(function.name, &function).second) {
    Cursor::fail_at(header.offset, "there are two functions called '", function.name, "'");
  }
  if (header.regions != 1 || !header.is_isolated) {
    Cursor::fail_at(header.offset, "function '", function.name, "' has ", header.regions, " bodies");
  }
  function.body = read_regions(header, cursor, nullptr).front();
  if (function.body->blocks.empty()) {
    raise(MYDEV_UNIMPLEMENTED, "function '" + function.name + "' has no body");
  }
}

Value* BytecodeOperations::new_value(const Type* type) {
  Value* value = &contents_.values.emplace_back();
  value->type = type;
  value->id = function_->value_count++;
  return value;
}

void BytecodeOperations::define(const Value* value, const Cursor& cursor) {
  Scope& scope = scopes_.back();
  size_t& next = scope.next.back();
  if (next >= scope.values.size()) cursor.fail("a region has more values than it announced");
  scope.values[next++] = value;
}

const Value* BytecodeOperations::used(size_t number, size_t offset) const {
  const Scope& scope = scopes_.back();
  const Value* value = number < scope.values.size() ? scope.values[number] : nullptr;
  if (value == nullptr) Cursor::fail_at(offset, "value ", number, " is used before it is defined");
  return value;
}

std::vector<const Region*> BytecodeOperations::read_regions(const Header& header, Cursor& cursor,
                                                            const Operation* owner) {
  std::vector<const Region*> regions;
  if (header.regions == 0) return regions;
  if (++depth_ > kMostNesting) {
    Cursor::fail_at(header.offset, "regions are nested in each other more than ", kMostNesting, " deep");
  }
  // An isolated operation's regions, all of them, are a section of their own with values of their own.
  Cursor nested;
  Cursor* source = &cursor;
  if (header.is_isolated) {
    nested = read_section(cursor, SectionId::kOperations);
    source = &nested;
    scopes_.emplace_back();
  }
  for (size_t i = 0; i < header.regions; ++i) regions.push_back(read_region(*source, owner));
  if (header.is_isolated) {
    nested.expect_end("a section of operations");
    scopes_.pop_back();
  }
  --depth_;
  return regions;
}

const Region* BytecodeOperations::read_region(Cursor& cursor, const Operation* owner) {
  Region& region = contents_.regions.emplace_back();
  region.owner = owner;
  region.function = function_;
  const size_t offset = cursor.offset();
  const size_t blocks = cursor.count("blocks");
  if (blocks == 0) return &region;
  MYDEV_CHECK(blocks == 1, MYDEV_UNIMPLEMENTED, "a region of function '", function_->name, "' has ", blocks,
              " blocks, at offset ", offset, "; StableHLO has one");
  const size_t values = cursor.count("values");
  Scope& scope = scopes_.back();
  scope.next.push_back(scope.values.size());
  scope.values.resize(scope.values.size() + values);
  Block& block = contents_.blocks.emplace_back();
  block.region = &region;
  region.blocks.push_back(&block);
  read_block(cursor, block, region);
  // The values of regions within are gone already.
  Scope& after = scopes_.back();
  after.values.resize(after.values.size() - values);
  after.next.pop_back();
  return &region;
}

void BytecodeOperations::read_block(Cursor& cursor, Block& block, Region& region) {
  const uint64_t encoded = cursor.varint();
  const uint64_t operations = encoded >> 1;
  if (operations > cursor.remaining()) cursor.fail("a block has ", operations, " operations");
  const bool is_body = region.owner == nullptr;
  if ((encoded & 1) != 0) {
    read_arguments(cursor, block);
  } else if (is_body && !function_->arguments.empty()) {
    cursor.fail("the body of function '", function_->name, "' has no arguments");
  }
  for (uint64_t i = 0; i < operations; ++i) {
    const Header header = read_header(cursor);
    if (header.dialect == "builtin" && header.name == "unrealized_conversion_cast") {
      read_cast(header);
    } else {
      add_operator(header, cursor, block);
    }
  }
  if (block.operations.empty() || !block.operations.back()->row().has(kTerminator)) {
    cursor.fail("a block of function '", function_->name, "' does not end with a return");
  }
}

void BytecodeOperations::read_arguments(Cursor& cursor, Block& block) {
  const size_t count = cursor.count("arguments");
  const bool is_body = block.region->owner == nullptr;
  if (is_body && count != function_->arguments.size()) {
    cursor.fail("the body of function '", function_->name, "' has ", count, " arguments, its type ",
                function_->arguments.size());
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t offset = cursor.offset();
    const uint64_t encoded = cursor.varint();
    if (encoded >> 1 >= sections_.types.size()) Cursor::fail_at(offset, "there is no type ", encoded >> 1);
    const Type* type = attributes_.type_at(encoded >> 1, offset);
    if ((encoded & 1) != 0) cursor.index(sections_.attributes.size(), "location");
    Value* value = nullptr;
    if (is_body) {
      // They were made with the signature.
      value = const_cast<Value*>(function_->arguments[i].value);
      if (!(*value->type == *type)) {
        Cursor::fail_at(offset, "argument ", i, " of function '", function_->name, "' is of the type ", type->text(),
                        " in its body, and ", value->type->text(), " in its signature");
      }
    } else {
      value = new_value(type);
      value->index = static_cast<uint32_t>(i);
    }
    value->block = &block;
    block.arguments.push_back(value);
    define(value, cursor);
  }
  if (cursor.byte() != 0) skip_use_orders(cursor, count);
}

// Reads a conversion between dialects: the results are the operands.
void BytecodeOperations::read_cast(const Header& header) {
  if (header.operands.size() != header.result_types.size() || header.regions != 0) {
    Cursor::fail_at(header.offset, "a conversion between dialects has ", header.operands.size(), " operands and ",
                    header.result_types.size(), " results");
  }
  for (size_t i = 0; i < header.operands.size(); ++i) {
    const Value* value = used(header.operands[i], header.offset);
    if (!(*value->type == *header.result_types[i])) {
      Cursor::fail_at(header.offset, "a conversion between dialects makes ", header.result_types[i]->text(), " of ",
                      value->type->text());
    }
    define(value, Cursor({}, header.offset));
  }
}

std::pair<const OperatorRow*, unsigned> BytecodeOperations::find_row(const Header& header) const {
  const std::string full = full_name(header.dialect, header.name);
  if (header.dialect == "sdy") {
    if (header.name == "return") return {&operator_row(Operator::kReturn), 1};
    if (const OperatorRow* row = find_operator(full)) return {row, 1};
  }
  const size_t suffix = header.name.rfind("_v");
  unsigned version = 0;
  if (header.dialect == "vhlo" && suffix != std::string_view::npos) {
    const char* end = header.name.data() + header.name.size();
    const auto parsed = std::from_chars(header.name.data() + suffix + 2, end, version);
    if (parsed.ptr != end || parsed.ec != std::errc()) version = 0;
    const std::string_view base = header.name.substr(0, suffix);
    const OperatorRow* row = find_operator(base == "call" ? "func.call" : full_name("stablehlo", base));
    if (row != nullptr && version >= 1 && version <= row->versions) return {row, version};
  }
  raise(MYDEV_UNIMPLEMENTED, full + location_suffix(header.location) +
                                 " is no operator of StableHLO 1.13, the newest version that is read, nor one of "
                                 "Shardy's that is known");
}

Dictionary BytecodeOperations::read_attributes(const Header& header, const OperatorRow& row, unsigned version) {
  Dictionary attributes;
  if (!row.attributes.empty() && header.properties != nullptr) {
    Cursor properties = *header.properties;
    // VHLO has no optional attributes; Shardy has.
    const bool has_optional = row.versions == 0;
    for (const AttributeRow& attribute : row.attributes) {
      if (version < attribute.first_version || version > attribute.last_version) continue;
      const Attribute* value = has_optional && attribute.optional ? attributes_.optional_attribute(properties)
                                                                  : attributes_.attribute(properties);
      if (value == nullptr) continue;
      // This is VHLO's way to say that there is no attribute.
      const auto* type = value->get_if<const Type*>();
      if (attribute.optional && type != nullptr && (*type)->kind == TypeKind::kNone) continue;
      attributes.push_back({attribute.name, value});
    }
    properties.expect_end(row.name);
  }
  if (header.attributes != nullptr) {
    attributes.insert(attributes.end(), header.attributes->begin(), header.attributes->end());
  }
  return attributes;
}

void BytecodeOperations::add_operator(const Header& header, Cursor& cursor, Block& block) {
  const auto [row, version] = find_row(header);
  Operation& op = contents_.operations.emplace_back();
  op.op = row->op;
  op.index = function_->operation_count++;
  op.location = header.location;
  op.function = function_;
  op.block = &block;
  op.attributes = read_attributes(header, *row, version);
  op.operands.reserve(header.operands.size());
  for (const size_t number : header.operands) op.operands.push_back(used(number, header.offset));
  for (size_t i = 0; i < header.result_types.size(); ++i) {
    Value* value = new_value(header.result_types[i]);
    value->definition = &op;
    value->block = &block;
    value->index = static_cast<uint32_t>(i);
    op.results.push_back(value);
  }
  op.regions = read_regions(header, cursor, &op);
  // Regions come first: they do not see the results.
  for (const Value* value : op.results) define(value, cursor);
  block.operations.push_back(&op);
}

}  // namespace mydev::stablehlo
