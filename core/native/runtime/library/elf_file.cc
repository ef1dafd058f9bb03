#include "runtime/library/elf_file.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "runtime/status.h"

namespace opwright {

namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#elif defined(__powerpc64__)
constexpr uint16_t kMachine = EM_PPC64;
#elif defined(__s390x__)
constexpr uint16_t kMachine = EM_S390;
#elif defined(__riscv)
constexpr uint16_t kMachine = EM_RISCV;
#else
#error "opwright: name this machine's ELF number here"
#endif
constexpr unsigned char kByteOrder =
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
constexpr unsigned char kWordClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;

std::string MachineName(uint16_t machine) {
  switch (machine) {
    case EM_386:
      return "x86 (32 bits)";
    case EM_X86_64:
      return "x86-64";
    case EM_ARM:
      return "arm (32 bits)";
    case EM_AARCH64:
      return "aarch64";
    case EM_PPC64:
      return "ppc64";
    case EM_S390:
      return "s390x";
    case EM_RISCV:
      return "riscv";
    default:
      return Concat("ELF machine ", machine);
  }
}

bool ReadAt(int file, uint64_t offset, void* buffer, size_t bytes) {
  return pread(file, buffer, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

[[noreturn]] void FailMachine(const std::string& path, uint16_t machine, bool swapped) {
  const auto number = swapped ? static_cast<uint16_t>(machine >> 8 | machine << 8) : machine;
  Throw(ErrorKind::kPlugin, path, ": a library must be built for this process, ",
        MachineName(kMachine), ", got one for ", MachineName(number),
        swapped ? " of the other byte order" : "", "; install the package for this machine");
}

// Checks that all segments that the loader maps exist, since the loader would also map missing
// segments and crash there.
void CheckWhole(int file, const std::string& path, const Elf64_Ehdr& header, uint64_t file_bytes) {
  std::vector<Elf64_Phdr> parts(header.e_phnum);
  const size_t bytes = parts.size() * sizeof(Elf64_Phdr);
  bool whole =
      header.e_phentsize == sizeof(Elf64_Phdr) && ReadAt(file, header.e_phoff, parts.data(), bytes);
  for (const Elf64_Phdr& part : parts) {
    if (part.p_type != PT_LOAD) continue;
    uint64_t end = 0;
    whole =
        whole && !__builtin_add_overflow(part.p_offset, part.p_filesz, &end) && end <= file_bytes;
  }
  if (!whole) {
    Throw(ErrorKind::kPlugin, path, ": a library must be complete, got a truncated file of ",
          file_bytes, " bytes; install its package again");
  }
}

}  // namespace

void CheckElfFile(int file, const std::string& path) {
  struct stat status{};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    Throw(ErrorKind::kPlugin, path, ": a library must be a file, got a folder or device");
  }
  Elf64_Ehdr header{};
  if (!ReadAt(file, 0, &header, EI_NIDENT) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    Throw(ErrorKind::kPlugin, path, ": a library must be a shared object (ELF), got ",
          status.st_size == 0 ? "an empty file" : "a file of another kind",
          "; name the .so that the linker made");
  }
  const bool swapped = header.e_ident[EI_DATA] != kByteOrder;
  // e_type and e_machine have the same offset in 32-bit and 64-bit files.
  const bool has_head = ReadAt(file, 0, &header, EI_NIDENT + 4);
  if (has_head &&
      (swapped || header.e_machine != kMachine || header.e_ident[EI_CLASS] != kWordClass)) {
    FailMachine(path, header.e_machine, swapped);
  }
  if (!has_head || !ReadAt(file, 0, &header, sizeof(header))) header.e_type = ET_NONE;
  if (header.e_type == ET_REL || header.e_type == ET_EXEC) {
    Throw(ErrorKind::kPlugin, path, ": a library must be a shared object, got ",
          header.e_type == ET_REL ? "an object file" : "a program",
          "; link it with -shared and -fPIC");
  }
  CheckWhole(file, path, header, static_cast<uint64_t>(status.st_size));
}

}  // namespace opwright
