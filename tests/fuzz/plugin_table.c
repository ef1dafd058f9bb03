/* A plugin whose table is wrong in the ways that HOSTILE_TABLE lists: "field:value field:value". */
#include "scale.h"

enum { kRows = 64, kFields = 48, kTextBytes = 5000 };

typedef struct tables {
  ow_plugin plugin;
  ow_op ops[kRows];
  ow_kernel kernels[kRows];
  ow_device devices[kRows];
  DLDataType dtypes[kRows];
  ow_reuse reuses[kRows];
  const char* needs[kRows];
  unsigned char proto[sizeof(kScaleProto)];
} tables;

static tables made;
static char long_text[kTextBytes];

/* Every text that a table may contain instead of a valid one. */
static const char* text_of(int64_t number) {
  static const char* const texts[] = {
      NULL,       "",        "acme.scale", "acme",    "x",          "out",     "cpu",
      "\xff\xfe", "a\nb\tc", "<b>\"'",     "softmax", "acme.other", "../acme", "acme.scale_grad",
  };
  const int64_t count = (int64_t)(sizeof(texts) / sizeof(texts[0]));
  if (number >= 0 && number < count) return texts[number];
  memset(long_text, 'a', sizeof(long_text) - 1);
  long_text[number < 0 ? 256 : 300] = '\0';
  return long_text;
}

static void spoil_plugin(int64_t field, int64_t value) {
  ow_plugin* plugin = &made.plugin;
  switch (field) {
    case 0:
      plugin->size = (uint64_t)value;
      break;
    case 1:
      plugin->abi_major = (uint32_t)value;
      break;
    case 2:
      plugin->abi_minor = (uint32_t)value;
      break;
    case 3:
      plugin->name = text_of(value);
      break;
    case 4:
      plugin->version = text_of(value);
      break;
    case 5:
      plugin->ops = value == 0 ? NULL : made.ops;
      break;
    case 6:
      plugin->n_ops = (uint64_t)value;
      break;
    case 7:
      plugin->op_stride = (uint64_t)value;
      break;
    case 8:
      plugin->kernels = value == 0 ? NULL : made.kernels;
      break;
    case 9:
      plugin->n_kernels = (uint64_t)value;
      break;
    case 10:
      plugin->kernel_stride = (uint64_t)value;
      break;
    case 11:
      plugin->devices = value == 0 ? NULL : made.devices;
      break;
    case 12:
      plugin->n_devices = (uint64_t)value;
      break;
    default:
      plugin->device_stride = (uint64_t)value;
      break;
  }
}

static void spoil_op(ow_op* op, int64_t field, int64_t value) {
  switch (field) {
    case 0:
      op->size = (uint64_t)value;
      break;
    case 1:
      op->type = text_of(value);
      break;
    case 2:
      op->proto = value == 0 ? NULL : made.proto;
      break;
    case 3:
      op->proto_bytes = value < 0 ? (uint64_t)value : (uint64_t)value % sizeof(made.proto);
      break;
    case 4:
      op->infer = value == 0 ? NULL : scale_infer;
      break;
    case 5:
      op->gradient_type = text_of(value);
      break;
    case 6:
      op->no_gradient_reason = text_of(value);
      break;
    case 7:
      op->flags = (uint32_t)value;
      break;
    case 8:
      op->n_gradient_needs = (uint32_t)value;
      break;
    case 9:
      made.needs[0] = text_of(value);
      break;
    case 10:
      op->gradient_needs = value == 0 ? NULL : made.needs;
      break;
    default:
      made.proto[(uint64_t)value % sizeof(made.proto)] ^= (unsigned char)(1u << (field % 8));
  }
}

static void spoil_kernel(ow_kernel* kernel, int64_t field, int64_t value) {
  switch (field) {
    case 0:
      kernel->size = (uint64_t)value;
      break;
    case 1:
      kernel->op_type = text_of(value);
      break;
    case 2:
      kernel->device = text_of(value);
      break;
    case 3:
      kernel->library = text_of(value);
      break;
    case 4:
      kernel->dtypes = value == 0 ? NULL : made.dtypes;
      break;
    case 5:
      kernel->n_dtypes = (uint64_t)value;
      break;
    case 6:
      kernel->priority = (int32_t)value;
      break;
    case 7:
      kernel->flags = (uint32_t)value;
      break;
    case 8:
      kernel->may_reuse = value == 0 ? NULL : made.reuses;
      break;
    case 9:
      kernel->n_may_reuse = (uint64_t)value;
      break;
    case 10:
      kernel->prepare = NULL;
      break;
    case 11:
      kernel->release = NULL;
      break;
    case 12:
      kernel->bind = NULL;
      break;
    case 13:
      kernel->unbind = NULL;
      break;
    case 14:
      kernel->run = NULL;
      break;
    case 15:
      made.reuses[0].output = text_of(value);
      break;
    case 16:
      made.reuses[0].input = text_of(value);
      break;
    case 17:
      made.dtypes[0].code = (uint8_t)value;
      break;
    case 18:
      made.dtypes[0].bits = (uint8_t)value;
      break;
    default:
      made.dtypes[0].lanes = (uint16_t)value;
      break;
  }
}

/* Fields 0 to 47 are the plugin's; from 100 on of ops[n], from 300 on of kernels[n]. */
static void spoil(int64_t field, int64_t value) {
  if (field < 100)
    spoil_plugin(field, value);
  else if (field < 300)
    spoil_op(&made.ops[(field - 100) / kFields % 2], (field - 100) % kFields, value);
  else
    spoil_kernel(&made.kernels[(field - 300) / kFields % 2], (field - 300) % kFields, value);
}

static void fill(void) {
  memset(&made, 0, sizeof(made));
  made.plugin = scale_make_plugin();
  made.ops[0] = made.plugin.ops[0];
  made.kernels[0] = made.plugin.kernels[0];
  made.kernels[1] = made.plugin.kernels[1];
  memcpy(made.proto, kScaleProto, sizeof(made.proto));
  made.ops[0].proto = made.proto;
  made.plugin.ops = made.ops;
  made.plugin.kernels = made.kernels;
  for (int i = 0; i < kRows; ++i) {
    made.dtypes[i] = scale_dtypes[i % 2];
    made.reuses[i] = scale_reuse[0];
    made.needs[i] = "x";
  }
}

EXPORT int32_t opwright_plugin_v1(const ow_host* host, const ow_plugin** out) {
  (void)host;
  fill();
  *out = &made.plugin;
  const char* text = getenv("HOSTILE_TABLE");
  while (text != NULL && *text != '\0') {
    char* end = NULL;
    const int64_t field = strtoll(text, &end, 10);
    if (*end != ':') return OW_ERROR;
    const int64_t value = strtoll(end + 1, &end, 10);
    spoil(field, value);
    text = end + strspn(end, " ");
  }
  return OW_OK;
}
