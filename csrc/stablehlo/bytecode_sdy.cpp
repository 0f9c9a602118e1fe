// Attributes of Shardy that say how values are sharded. What else Shardy has is read past.
#include "stablehlo/bytecode_attributes.h"

namespace mydev::stablehlo {

Attribute decode_sdy_attribute(Cursor& cursor, BytecodeAttributes& table) {
  const uint64_t code = cursor.varint();
  return {UnknownAttribute{"attribute " + std::to_string(code) + " of Shardy"}};
}

}  // namespace mydev::stablehlo
