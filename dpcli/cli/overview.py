"""The text of `dpcli --help`, printed without importing Click. tests/test_docs.py compares it with Click's, and writes it anew."""

HELP = """\
Usage: dpcli [OPTIONS] COMMAND [ARGS]...

  Account for the privacy loss of a differentially private pipeline, calibrate
  its noise, and gate its budget.

  Exit codes: 0 pass, 1 a gate or budget said no, 2 input error, 3 cannot
  certify, 4 the ledger is missing, locked or damaged, 70 a bug of ours, 130
  interrupted.

  Each option works before the command and after it.

Options:
  -q, --quiet                  Print results only, no notes.
  -v, --verbose                Cite the source of every bound; twice: show the
                               trace of an internal error.
  --color [auto|always|never]  Color the table [default: auto].
  -V, --version                Show the version and exit.
  -h, --help                   Show this message and exit.

Commands:
  account          What a pipeline costs, by every accountant.
  attest           Attest what the model of a training run guarantees; verify
                   it.
  audit            Put a program to the test: what an attack proves against
                   its claim.
  budget           The ledger: what a dataset has spent, and what still fits.
  calibrate        Solve for steps, epochs, batch size, rate, radius, scale or
                   noise.
  calibrate-sigma  The smallest noise multiplier for a target epsilon.
  comment          Tell a pull request what the gate says, in one comment.
  completion       Shell completion for bash, zsh or fish.
  diff             What changed between two pipelines, and what each change
                   costs.
  doctor           Check that this machine has what dpcli needs.
  evaluate         The metric of the model of a training run.
  explain          What a pipeline's guarantee, a rule or a term means.
  export           Write a pipeline, or a trained model, as another library
                   keeps it.
  gate             Stop a change that overspends: verdict by exit code.
  generate         Write private texts, token by token.
  import           Convert another library's record to a pipeline file.
  init             Write a pipeline file or a CI recipe.
  lint             Check files against the catalogue of known failures.
  man              Write the manual pages.
  pate             Labels by the noisy votes of teachers, and a student
                   (PATE).
  plot             Draw epsilon, delta or an attacker's errors, in a terminal
                   or to a file.
  pmixed           Text from language models on private shards, mixed with a
                   public one.
  predict          Ask the model of a training run: labels, or text.
  prompt           Make a prompt of private demonstrations, by noisy votes
                   (PromptPATE).
  release          Answer queries about a table with noise, once, and remember
                   the answers.
  report           The disclosure statement: every item a reader must be told.
  schema           The JSON Schema of the pipeline, policy or schedule file,
                   for editors.
  sweep            Accuracy against epsilon: a grid of training runs.
  train            Train a model privately, as a file declares it.
  version          Versions of dpcli and of what it computes with.

  Start with: dpcli init > pipeline.toml; dpcli account pipeline.toml
"""
