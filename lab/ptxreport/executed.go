package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/kernels/images"
)

// executed holds the kernels that tests launched, a file with a name on each line
// (GPC_TEST_PTX_EXECUTED), against the entries of all images: those of the module and of the
// example outside of it. It writes how many ran. A kernel that is in no image, or an image of
// which no entry ran, is an error.
func executed(to io.Writer, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	m, err := images.Find(".")
	if err != nil {
		return err
	}
	all, err := manifests(m, images.Module{Root: filepath.Join(m.Root, "examples", "outside"), Engine: m.Root})
	if err != nil {
		return err
	}
	return compare(to, all, strings.Fields(string(text)))
}

// manifests are the images of modules.
func manifests(modules ...images.Module) (list []images.Entry, err error) {
	for _, m := range modules {
		folders, err := m.Folders()
		if err != nil {
			return nil, err
		}
		for _, folder := range folders {
			manifest, err := images.ReadManifest(m.Images(folder))
			if err != nil {
				return nil, err
			}
			list = append(list, manifest.Images...)
		}
	}
	return list, nil
}

// compare says which entries of images are among the names of kernels that ran.
func compare(to io.Writer, all []images.Entry, ran []string) error {
	var idle, missed, entries []string
	for _, e := range all {
		entries = append(entries, e.Kernels...)
		missing := slices.DeleteFunc(slices.Clone(e.Kernels), func(k string) bool { return slices.Contains(ran, k) })
		missed = append(missed, missing...)
		if len(missing) == len(e.Kernels) {
			idle = append(idle, e.Name)
		}
	}
	for _, k := range ran {
		if !slices.Contains(entries, k) {
			return fmt.Errorf("kernel %s ran, and no image has it", k)
		}
	}
	fmt.Fprintf(to, "%d of %d images and %d of %d entries were executed\n", len(all)-len(idle), len(all), len(entries)-len(missed), len(entries))
	if len(missed) > 0 {
		fmt.Fprintf(to, "not executed: %s\n", strings.Join(missed, ", "))
	}
	if len(idle) > 0 {
		return fmt.Errorf("no entry was executed of the images %s: a test of each has to run on the interpreter", strings.Join(idle, ", "))
	}
	return nil
}
