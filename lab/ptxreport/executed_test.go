package main

import (
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/kernels/images"
)

// An entry that did not run is named, an image of which none ran is an error, and so is a
// kernel of no image.
func TestExecutedNamesWhatDidNotRun(t *testing.T) {
	all := []images.Entry{{Name: "net", Kernels: []string{"forward", "backward"}}, {Name: "eig", Kernels: []string{"eig"}}}
	for _, c := range []struct{ ran, says, fails string }{
		{"forward backward eig eig", "2 of 2 images and 3 of 3 entries were executed\n", ""},
		{"eig forward", "2 of 2 images and 2 of 3 entries were executed\nnot executed: backward\n", ""},
		{"eig", "1 of 2 images and 1 of 3 entries were executed\nnot executed: forward, backward\n", "of the images net:"},
		{"eig stray", "", "stray"},
	} {
		var says strings.Builder
		err := compare(&says, all, strings.Fields(c.ran))
		if says.String() != c.says || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %q, %v; want %q, an error with %q", c.ran, says.String(), err, c.says, c.fails)
		}
	}
}

// All images are found, those of the example outside of the module too.
func TestManifestsHaveTheImagesOfEveryFolder(t *testing.T) {
	here := opened(t, "../..")
	all, err := manifests(here, opened(t, "../../examples/outside"))
	if err != nil || len(all) < 43 {
		t.Errorf("%d images, %v; there were 43", len(all), err)
	}
}

func opened(t *testing.T, dir string) images.Module {
	t.Helper()
	m, err := images.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
