declare const process: { argv: string[] };
declare const console: { log(line: string): void };
