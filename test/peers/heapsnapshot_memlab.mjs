// heapsnapshot_memlab.mjs - what memlab makes of heap snapshots.
//
//   node heapsnapshot_memlab.mjs LIST OUT    (LIST: a file with a name of a file in each line)
//
// Writes `file NAME`, then for each node: id, name as JSON, self size, id of the dominator or "-",
// retained size, whether it is reached.
import {createRequire} from 'node:module';
import fs from 'node:fs';

const require = createRequire(`${process.env.HX_NODE_MODULES}/x.js`);
const core = require('@memlab/core');
const analysis = require('@memlab/heap-analysis');
core.info.config.verbose = false;
core.config.muteConsole = true;

const lines = [];
for (const file of fs.readFileSync(process.argv[2], 'utf8').split('\n').filter(Boolean)) {
  const heap = await analysis.getFullHeapFromFile(file);
  // What nothing leads to hangs on the root all the same: reached is what edges reach.
  const reached = new Set();
  const todo = [];
  heap.nodes.forEach(node => {
    if (reached.size === 0) {
      reached.add(node.id);
      todo.push(node);
    }
  });
  while (todo.length) {
    for (const edge of todo.pop().references) {
      if (!reached.has(edge.toNode.id)) {
        reached.add(edge.toNode.id);
        todo.push(edge.toNode);
      }
    }
  }
  lines.push(`file ${file}`);
  heap.nodes.forEach(node => {
    const dominator = node.dominatorNode;
    lines.push([node.id, JSON.stringify(node.name), node.self_size,
                dominator ? dominator.id : '-', node.retainedSize,
                reached.has(node.id) ? 1 : 0].join('\t'));
  });
}
fs.writeFileSync(process.argv[3], lines.join('\n') + '\n');
