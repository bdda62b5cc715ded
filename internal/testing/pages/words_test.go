package pages

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Bounds of what a stranger has to read.
const (
	wordsASentence = 20   // in the mean of a page for users
	longest        = 25   // words of one sentence of a page for users
	linesOfREADME  = 130  // with its generated tables
	linesOfPages   = 4060 // of all pages but results, reference and notebook
)

// Words of tables, code, headings and generated parts do not count, a list's items end sentences, and a link's target
// is no word.
func TestSentencesArePlainText(t *testing.T) {
	page := "# A title of many words\n\nOne two\nthree. Four `a b c` [five six](there.md) seven!\n\n* eight\n* nine ten\n\n| a | cell |\n\n" +
		"```go\nx := y. Z\n```\n<!-- x: written by make docs -->\nno words here.\n<!-- end of x -->\n"
	if all := Sentences(page); len(all) != 4 || Mean(all) != 11./4 {
		t.Errorf("%d sentences of %v words: %q", len(all), Mean(all), all)
	}
}

// forUsers are the pages and folders that somebody reads who uses the program.
var forUsers = []string{"README.md", "CONTRIBUTING.md", "docs/README.md", "docs/tutorials/", "docs/how-to/", "docs/reference/", "docs/explain/"}

// Pages for users are in short sentences, and none of their sentences is long.
func TestPagesForUsersAreInShortSentences(t *testing.T) {
	counted := 0
	for _, page := range pages(t) {
		if !slices.ContainsFunc(forUsers, func(prefix string) bool { return strings.HasPrefix(page, prefix) }) {
			continue
		}
		counted++
		all := Sentences(string(require.Get(os.ReadFile(filepath.Join(root, page)))(t)))
		if m := Mean(all); m > wordsASentence {
			t.Errorf("%s has %.1f words a sentence, more than %d", page, m, wordsASentence)
		} else {
			t.Logf("%s: %.1f words a sentence", page, m)
		}
		for _, s := range all {
			if n := len(strings.Fields(s)); n > longest {
				t.Errorf("%s has a sentence of %d words, more than %d: %s", page, n, longest, s)
			}
		}
	}
	if counted < 40 {
		t.Errorf("%d pages", counted)
	}
}

// README fits a few screens, and the pages that a reader may want to read whole stay within what one can read.
func TestPagesStayShort(t *testing.T) {
	of := map[string]int{}
	for _, page := range pages(t) {
		lines := strings.Count(string(require.Get(os.ReadFile(filepath.Join(root, page)))(t)), "\n")
		switch {
		case page == "README.md":
			of[page] = lines
		case strings.HasPrefix(page, "docs/") && !strings.HasPrefix(page, "docs/results/") && !strings.HasPrefix(page, "docs/reference/") && !strings.HasPrefix(page, "docs/contribute/notebook/"):
			of["docs"] += lines
		}
	}
	if of["README.md"] > linesOfREADME || of["docs"] > linesOfPages {
		t.Errorf("README has %d lines, at most %d; pages %d, at most %d", of["README.md"], linesOfREADME, of["docs"], linesOfPages)
	}
	t.Logf("README %d lines, pages %d", of["README.md"], of["docs"])
}

// stoppers are sentences at which readers stopped; each says plainly now what it meant.
var stoppers = []string{
	"latent space of its Pareto-optimal decisions", "Of each case the kind of scenes", "What a map has over it is the tail",
	"The guarantees hold where their conditions do", "seed that chose nothing", "The CUDA backend has all of it",
}

// No page has a sentence back at which readers stopped.
func TestNoPageHasASentenceThatStoppedReaders(t *testing.T) {
	for _, page := range pages(t) {
		words := strings.Join(strings.Fields(string(require.Get(os.ReadFile(filepath.Join(root, page)))(t))), " ")
		for _, s := range stoppers {
			if strings.Contains(words, s) {
				t.Errorf("%s says %q, at which readers stopped", page, s)
			}
		}
	}
}
