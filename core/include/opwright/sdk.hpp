// A C++ interface on top of opwright's C interface: operators, kernels and devices are classes, and
// macros fill the tables.
//
// Header-only C++17, which does not link opwright:
//
//   g++ -std=c++17 -O2 -fPIC -shared -fvisibility=hidden -I"$(python -c 'import opwright;
//       print(opwright.get_include())')" my_plugin.cc -o my_plugin.so
//
// See docs/publish_a_compiled_operator.md, docs/add_a_device.md and
// examples/plugins/opwright-cosine.
#ifndef OPWRIGHT_SDK_HPP_
#define OPWRIGHT_SDK_HPP_

#include "opwright/abi.h"
#include "opwright/sdk/attributes.hpp"
#include "opwright/sdk/device.hpp"
#include "opwright/sdk/dtypes.hpp"
#include "opwright/sdk/host.hpp"
#include "opwright/sdk/infer_shape.hpp"
#include "opwright/sdk/kernel.hpp"
#include "opwright/sdk/kernel_context.hpp"
#include "opwright/sdk/op_description.hpp"
#include "opwright/sdk/op_maker.hpp"
#include "opwright/sdk/op_rules.hpp"
#include "opwright/sdk/parallel.hpp"
#include "opwright/sdk/plugin.hpp"
#include "opwright/sdk/proto_encoder.hpp"
#include "opwright/sdk/shape.hpp"
#include "opwright/sdk/status.hpp"

#endif  // OPWRIGHT_SDK_HPP_
