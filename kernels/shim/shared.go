package shim

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpc-engine/gpc/kernels/images"
)

// reservedShared is what the driver keeps of each block's shared memory on sm_90, which
// a cubin counts as the kernel's and the driver does not.
const reservedShared = 1 << 10

// elfVersion is where an ELF file's header says its version.
const elfVersion = 0x14

// staticShared tells the bytes of shared memory that each kernel of a folder of images has of its own,
// by its cubin for sm_90. A folder without images has none.
func staticShared(folder string) (map[string]int, error) {
	const target, section = "sm_90.cubin", ".nv.shared."
	manifest, err := images.ReadManifest(folder)
	if err != nil {
		return nil, err
	}
	static := map[string]int{}
	for _, e := range manifest.Images {
		blob, err := os.ReadFile(filepath.Join(folder, images.FileName(e.Name, target)))
		if err != nil {
			return nil, err
		}
		image, err := images.Unpack(blob)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", images.FileName(e.Name, target), err)
		}
		if len(image) > elfVersion {
			image[elfVersion] = byte(elf.EV_CURRENT) // a cubin has its compiler's version there
		}
		cubin, err := elf.NewFile(bytes.NewReader(image))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", images.FileName(e.Name, target), err)
		}
		for _, k := range e.Kernels {
			static[k] = 0
		}
		for _, part := range cubin.Sections {
			if kernel, ok := strings.CutPrefix(part.Name, section); ok {
				static[kernel] = max(0, int(part.Size)-reservedShared)
			}
		}
	}
	return static, nil
}
