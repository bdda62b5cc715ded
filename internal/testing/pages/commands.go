package pages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Command is one that a page shows, with what the page says that it prints.
type Command struct {
	Page, Line string
	Printed    []string
	block      int // of the page
}

var (
	block  = regexp.MustCompile("(?ms)^ *```(?:console|sh)\n(.*?)^ *```")
	inline = regexp.MustCompile("`((?:(?:bin/)?gpc(?:-lab)?|make|lab/run) [^`\n]*)`")
	plain  = regexp.MustCompile(`(?m)^ {4}(?:\$ )?((?:(?:bin/)?gpc(?:-lab)?|make|lab/run) .*)$`) // of blocks that are indented
	past   = regexp.MustCompile("`[^`\n]*` at commit ")
	remark = regexp.MustCompile(`\s{2,}# .*$`)
	parts  = regexp.MustCompile(`\|\||&&|\||;`)
)

// Shown are the commands of a page's blocks, in order.
func Shown(page, text string) (all []Command) {
	for i, b := range block.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(b[1]) {
			line = strings.TrimRight(line, "\n")
			if c, ok := strings.CutPrefix(strings.TrimSpace(line), "$ "); ok {
				all = append(all, Command{Page: page, Line: remark.ReplaceAllString(c, ""), block: i})
			} else if len(all) > 0 && all[len(all)-1].block == i && strings.TrimSpace(line) != "" {
				all[len(all)-1].Printed = append(all[len(all)-1].Printed, line)
			}
		}
	}
	return all
}

// Documents are README, CONTRIBUTING and the pages of docs, by their path from the root.
func Documents(root string) (map[string]string, error) {
	all := map[string]string{}
	read := func(path string) error {
		text, err := os.ReadFile(path)
		if err == nil {
			path, err = filepath.Rel(root, path)
			all[filepath.ToSlash(path)] = string(text)
		}
		return err
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md"} {
		if err := read(filepath.Join(root, name)); err != nil {
			return nil, err
		}
	}
	return all, filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".md") {
			return read(path)
		}
		return err
	})
}

// Commands are those that pages show, in blocks and in their text, a line for each part of a pipeline. The
// notebook's, and those of records "at commit", are of their time and left out.
func Commands(root string) (all []Command, err error) {
	documents, err := Documents(root)
	if err != nil {
		return nil, err
	}
	for page, text := range documents {
		if strings.HasPrefix(page, "docs/contribute/notebook/") {
			continue
		}
		for _, c := range Shown(page, text) {
			for _, part := range parts.Split(c.Line, -1) {
				if strings.TrimSpace(part) != "" {
					all = append(all, Command{Page: page, Line: part})
				}
			}
		}
		text = past.ReplaceAllString(fenced.ReplaceAllString(written.ReplaceAllString(text, ""), ""), "")
		for _, c := range inline.FindAllStringSubmatch(text, -1) {
			all = append(all, Command{Page: page, Line: c[1]})
		}
		for _, c := range plain.FindAllStringSubmatch(text, -1) {
			for _, part := range parts.Split(c[1], -1) {
				all = append(all, Command{Page: page, Line: strings.TrimSpace(part)})
			}
		}
	}
	return all, nil
}

// Unknown says what of a line is no command or flag of a program. Its help of a command's words is "" where they name none.
func (c Command) Unknown(help func(words []string) string) (unknown []string) {
	words := strings.Fields(c.Line)
	path := words[1:1]
	if len(words) > 1 && words[1] == "COMMAND" {
		words = words[:1]
	}
	for len(words) > len(path)+1 && !strings.HasPrefix(words[len(path)+1], "-") && help(words[1:len(path)+2]) != "" && strings.Contains(help(words[1:len(path)+2]), " "+strings.Join(words[1:len(path)+2], " ")) {
		path = words[1 : len(path)+2]
	}
	if len(path) == 0 && len(words) > 1 && !strings.HasPrefix(words[1], "-") {
		return []string{"there is no command " + words[1]}
	}
	for _, word := range words[1:] {
		flag, _, _ := strings.Cut(strings.TrimRight(word, ",;]"), "=")
		if flag = strings.TrimLeft(flag, "["); strings.HasPrefix(flag, "--") && !regexp.MustCompile(regexp.QuoteMeta(flag)+`\b`).MatchString(help(path)) {
			unknown = append(unknown, strings.Join(path, " ")+" has no "+flag)
		}
	}
	return unknown
}

// Help remembers what a program prints of the help of its commands; run is the program, with its exit code and output.
func Help(run func(arguments []string) (code int, out string)) func(words []string) string {
	help := map[string]string{}
	return func(words []string) string {
		path := strings.Join(words, " ")
		if _, ok := help[path]; !ok {
			code, out := run(append(slices.Clone(words), "--help"))
			if code != 0 {
				out = ""
			}
			help[path] = out
		}
		return help[path]
	}
}
