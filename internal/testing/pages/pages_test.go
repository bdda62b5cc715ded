package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// root of the repository.
const root = "../../.."

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
)

// anchor is a heading's, as GitHub makes it.
func anchor(heading string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(link.ReplaceAllString(heading, "]")) {
		switch {
		case c == ' ':
			b.WriteRune('-')
		case unicode.IsLetter(c) || unicode.IsDigit(c) || c == '-' || c == '_':
			b.WriteRune(c)
		}
	}
	return b.String()
}

// pages are the documents of the root and of the folders that have some.
func pages(t *testing.T) (all []string) {
	t.Helper()
	for _, dir := range []string{".", "docs", "examples", "lab"} {
		require.OK(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && dir == "." && path != root:
				return fs.SkipDir
			case strings.HasSuffix(path, ".md"):
				all = append(all, require.Get(filepath.Rel(root, path))(t))
			}
			return nil
		}))
	}
	return all
}

// text is a document without its blocks of code.
func text(t *testing.T, page string) string {
	return fenced.ReplaceAllString(string(require.Get(os.ReadFile(filepath.Join(root, page)))(t)), "")
}

// Every relative link of a document leads to a file or folder that is there, and behind # to one
// of its headings.
func TestLinksLeadSomewhere(t *testing.T) {
	anchors := map[string][]string{} // of a document
	of := func(page string) []string {
		if _, ok := anchors[page]; !ok {
			for _, m := range heading.FindAllStringSubmatch(text(t, page), -1) {
				anchors[page] = append(anchors[page], anchor(m[1]))
			}
		}
		return anchors[page]
	}
	links := 0
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text(t, page), ""), -1) {
			to, section, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			links++
			target := page
			if to != "" {
				target = filepath.Join(filepath.Dir(page), to)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			} else if section != "" && !slices.Contains(of(target), section) {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links were found", links)
	}
}

// The index of the documents names every page of the folder.
func TestTheIndexNamesEveryPage(t *testing.T) {
	index := text(t, "docs/README.md")
	for _, page := range pages(t) {
		if name, ok := strings.CutPrefix(page, "docs/"); ok && name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not lead to %s", page)
		}
	}
}
