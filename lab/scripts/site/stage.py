"""Copies docs/ to a folder that MkDocs reads: README becomes the first page, the index of documents its own, and links to
files outside of docs/ lead to the repository."""

import pathlib
import re
import shutil
import sys

REPOSITORY = "https://github.com/gpc-engine/gpc/blob/main/"


def staged(page: pathlib.Path, text: str, root: pathlib.Path) -> str:
    """The page's text with its relative links as they are in the site; page is relative to root."""

    def link(m: re.Match[str]) -> str:
        before, to, after = m.groups()
        if "://" in to or to.startswith(("#", "mailto:")):
            return m.group(0)
        path, hash_, section = to.partition("#")
        file = (root / page.parent / path).resolve().relative_to(root)
        if page == pathlib.Path("README.md") and file.parts[:1] == ("docs",):
            return f"{before}{file.relative_to('docs').as_posix().replace('README.md', 'documents.md')}{hash_}{section}{after}"
        if file == pathlib.Path("README.md"):
            return f"{before}{'../' * (len(page.parts) - 2)}index.md{after}"
        if file.parts[0] != "docs":
            return f"{before}{REPOSITORY}{file.as_posix()}{hash_}{section}{after}"
        return f"{before}{path.replace('README.md', 'documents.md')}{hash_}{section}{after}"

    text = re.sub(r"(\]\()([^)\s]+)(\))", link, text)
    return re.sub(r'(<img src=")([^"]+)(")', link, text)


def navigation(index: str) -> str:
    """The site's settings, with the pages in the order and under the headings of the index of documents."""
    lines, seen = ["INHERIT: ../../lab/scripts/site/mkdocs.yml", "nav:", "  - gpc: index.md", "  - Documents: documents.md"], set()
    for line in index[index.index("\n## ") :].splitlines():
        if line.startswith("## "):
            lines.append(f"  - {line[3:]}:")
        for page in re.findall(r"\]\(([^):#]+\.md)\)", line):
            if page not in seen:
                lines.append(f"      - {page}")
            seen.add(page)
    return "\n".join(lines) + "\n"


def main(root: pathlib.Path, out: pathlib.Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(root / "docs", out)
    (out / "README.md").rename(out / "documents.md")
    for file in sorted(out.rglob("*.md")):
        page = pathlib.Path("docs") / ("README.md" if file.name == "documents.md" else file.relative_to(out))
        file.write_text(staged(page, file.read_text(), root))
    (out / "index.md").write_text(staged(pathlib.Path("README.md"), (root / "README.md").read_text(), root))
    shutil.copy(root / "lab/scripts/site/tables.css", out / "tables.css")
    (out.parent / "mkdocs.yml").write_text(navigation((out / "documents.md").read_text()))


if __name__ == "__main__":
    main(pathlib.Path(__file__).resolve().parents[3], pathlib.Path(sys.argv[1]).resolve())
